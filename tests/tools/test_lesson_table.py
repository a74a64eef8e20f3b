"""lessons/README.md agrees with the first cells of the lessons."""

from minitorch_attn.course.lesson_list import lessons
from tools import lesson_table


def test_the_page_is_up_to_date():
    again = "lessons/README.md is old: python -m tools.lesson_table"
    assert lesson_table.PAGE.read_text(encoding="utf-8") == lesson_table.page(), again


def test_every_lesson_has_its_row():
    rows = [line for line in lesson_table.page().splitlines() if line.startswith("| ")][1:]
    rows = [row for row in rows if "---" not in row][: len(lessons(lesson_table.ROOT / "lessons"))]
    assert len(rows) == len(lessons(lesson_table.ROOT / "lessons"))
    for row, lesson in zip(rows, lessons(lesson_table.ROOT / "lessons"), strict=True):
        cells = row.replace(r"\|", "").strip("|").split(" | ")
        assert len(cells) == 4 and f"]({lesson.path.name})" in cells[1] and "?" in cells[2]


def test_check_tells_an_old_page(monkeypatch, tmp_path):
    monkeypatch.setattr(lesson_table, "PAGE", tmp_path / "README.md")
    monkeypatch.setattr("sys.argv", ["lesson_table", "--check"])
    assert lesson_table.main() == 1
    lesson_table.PAGE.write_text(lesson_table.page(), encoding="utf-8")
    assert lesson_table.main() == 0
    lesson_table.PAGE.write_text(lesson_table.page().replace("?", "!", 1), encoding="utf-8")
    assert lesson_table.main() == 1

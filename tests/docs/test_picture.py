"""The architecture picture shows the same arrows as the imports."""

from sitebuilder import import_graph as graph


def test_the_arrows_are_the_imports():
    drawn = graph.edges_of_picture(graph.PICTURE.read_text(encoding="utf-8"))
    assert drawn == graph.drawn_edges(), (
        "the imports have changed: cd docs && python -m sitebuilder.import_graph"
    )


def test_every_arrow_is_an_import_and_every_import_a_way_along_arrows():
    drawn, all_edges = graph.drawn_edges(), graph.edges()
    assert drawn <= all_edges
    down = drawn - graph.KNOT
    for start, end in all_edges - graph.KNOT:
        assert end in graph._reached(start, down), (start, end)


def test_no_part_but_the_knot_imports_in_a_circle():
    down = graph.edges() - graph.KNOT
    assert [part for part in graph.PARTS if part in graph._reached(part, down)] == []


def test_every_part_is_a_file_or_folder():
    folder = graph.ROOT / graph.PACKAGE
    for part in graph.PARTS:
        places = [folder / part, folder / f"{part}.py", folder / "models" / part]
        assert any(place.exists() for place in places), part

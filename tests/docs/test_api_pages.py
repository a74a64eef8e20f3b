"""The API reference contains every public name once."""

import re

import pytest
from sitebuilder import api_pages, op_sections

PAGES = api_pages.pages()
DOCUMENTED = re.findall(r"^\.\. auto\w+:: minitorch_attn\.(\S+)$", "\n".join(PAGES.values()), re.M)


def test_every_name_is_documented_once():
    assert len(DOCUMENTED) == len(set(DOCUMENTED)) > 500
    found = {id(api_pages._value(name)) for name in DOCUMENTED}
    for namespace in api_pages.existing_namespaces():
        for name, value in api_pages.public_names(namespace).items():
            assert id(value) in found, f"{namespace}.{name}"


def test_every_namespace_has_a_page_in_the_table_of_contents():
    for namespace in api_pages.existing_namespaces():
        page = namespace or "mt"
        assert f"   {page}\n" in PAGES["index.rst"], page
        assert f"{page}.rst" in PAGES


def test_known_names_are_where_a_reader_expects_them():
    assert "~minitorch_attn.softmax" in PAGES["mt.rst"]
    assert "~minitorch_attn.nn.MultiheadAttention" in PAGES["nn.rst"]
    assert "~minitorch_attn.softmax" in PAGES["nn.functional.rst"]
    assert ".. autofunction:: minitorch_attn.softmax" in PAGES["files/ops.softmax.rst"]
    assert "``mt.float32``" in PAGES["mt.rst"]


def test_a_page_follows_its_file():
    page = PAGES["files/ops.softmax.rst"]
    order = re.findall(r"minitorch_attn\.(\w+)$", page, re.M)
    assert order == ["softmax", "softmin", "log_softmax", "masked_softmax", "logsumexp"]


def test_names_on_one_line_are_in_alphabetical_order():
    names = ["true_divide", "divide", "div"]
    pages = [api_pages.file_page("ops.arithmetic", order) for order in (names, names[::-1])]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("file", op_sections.files())
def test_every_operation_has_a_section_with_its_formulas(file):
    page = PAGES[f"files/{file}.rst"]
    for operation in op_sections.operations(file):
        section = page.split(f"\nBackward of {operation.__name__}\n")[1].split("\nBackward of ")[0]
        assert "   Forward: " in section and "   Backward: " in section, operation
        assert f"{file}.{operation.__name__}.backward>`" in section


def test_the_operations_of_a_file_come_in_its_order():
    names = [operation.__name__ for operation in op_sections.operations("ops.softmax")]
    assert names == ["Softmax", "MaskedSoftmax", "LogSoftmax", "LogSumExp"]
    assert "ops.attention.fused" in op_sections.files()

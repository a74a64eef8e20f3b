"""`junit.xml`: results in the JUnit format, for GitLab, Jenkins and GitHub test reports."""

import re
import xml.etree.ElementTree as ET

__all__ = ["junit"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results):
    """Make JUnit XML for a class, with a test suite per submission and a test case per check.

    Parameters
    ----------
    results : dict
        Content of `results.json`.

    Returns
    -------
    bytes
    """
    name = results["assignment"]["name"]
    root = ET.Element("testsuites", name=_text(name))
    for document in results["submissions"]:
        lines = document["checks"]
        # The time is in UTC, but the format cannot express this.
        suite = ET.SubElement(
            root, "testsuite", name=_text(document["submission"]["name"]),
            time=f"{document['seconds']:.3f}", timestamp=document["grader"]["time"][:19],
        )  # fmt: skip
        _properties(suite, document)
        counts = {"failures": 0, "errors": 0, "skipped": 0, None: 0}
        for line in lines:
            counts[_case(suite, name, line)] += 1
        if document["status"] == "not graded":
            case = ET.SubElement(suite, "testcase", classname=_text(name), name="grader")
            ET.SubElement(case, "error", message="the grader itself failed; this is not a grade")
            counts["errors"] += 1
        counts.pop(None)
        total = len(lines) + (document["status"] == "not graded")
        suite.attrib.update({"tests": str(total), **{k: str(v) for k, v in counts.items()}})
    for missing in results["not_graded"]:
        suite = ET.SubElement(
            root, "testsuite", name=_text(missing["name"]), tests="1", failures="0", errors="1",
            skipped="0", time="0",
        )  # fmt: skip
        case = ET.SubElement(suite, "testcase", classname=_text(name), name="grader")
        ET.SubElement(case, "error", message=_text(missing.get("message", "not graded yet")))
    ET.indent(root, " ")
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _properties(suite, document):
    """Add the score, the status and the sandbox level to a test suite."""
    table = ET.SubElement(suite, "properties")
    facts = {
        "score": document["score"], "max_score": document["max_score"],
        "status": document["status"], "sandbox": document["grader"]["sandbox"],
    }  # fmt: skip
    for name, value in facts.items():
        ET.SubElement(table, "property", name=name, value=str(value))


def _case(suite, classname, line):
    """Add one check. Return "failures", "errors" or "skipped", or None if the check passed."""
    case = ET.SubElement(
        suite, "testcase", classname=_text(classname), name=_text(line["name"]),
        time=f"{line['seconds']:.3f}",
    )  # fmt: skip
    kind = {"passed": None, "failed": "failure", "not run": "skipped"}.get(line["status"], "error")
    if kind is None:
        return None
    message = _text(line["message"])
    first = "".join(message.splitlines()[:1])
    inner = ET.SubElement(case, kind, message=f"{line['status']}: {first}"[:300])
    inner.text = message or None
    return {"failure": "failures", "error": "errors", "skipped": "skipped"}[kind]


def _text(text):
    """Remove characters that XML 1.0 does not allow."""
    return _NOT_XML.sub("�", str(text))

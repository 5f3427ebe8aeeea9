"""A validator for `junit-10.xsd`, limited to the parts of XML Schema that this file uses.

The file comes from Jenkins' xunit plugin, with its notice. It says which children and attributes an element may
have. Each of its groups is a choice that may repeat, or a sequence whose elements are all optional.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_XS = "{http://www.w3.org/2001/XMLSchema}"
_KNOWN = {f"{_XS}{name}" for name in ("complexType", "sequence", "choice", "element", "attribute")}


class Schema:
    """The global elements and types of a schema."""

    def __init__(self, path: Path) -> None:
        root = ElementTree.parse(path).getroot()
        self._elements = {each.get("name"): each for each in root.findall(f"{_XS}element")}
        self._types = {
            each.get("name"): each
            for each in root
            if each.tag.endswith(("complexType", "simpleType"))
        }

    def complaints(self, element: Element) -> Iterator[str]:
        """Yield what the schema does not allow in an element and below it."""
        declared = self._elements.get(element.tag)
        if declared is None:
            yield f"{element.tag}: no such element"
            return
        kind = declared.find(f"{_XS}complexType")
        kind = self._types.get(declared.get("type", "")) if kind is None else kind
        yield from self._attributes(element, kind)
        allowed = set() if kind is None else set(self._children(kind))
        for child in element:
            if child.tag not in allowed:
                yield f"{element.tag}: no {child.tag} in it"
            yield from self.complaints(child)
        texts = [element.text or "", *(child.tail or "" for child in element)]
        if kind is not None and kind.get("mixed") != "true" and "".join(texts).strip():
            yield f"{element.tag}: no text in it"

    def _attributes(self, element: Element, kind: Element | None) -> Iterator[str]:
        declared = [] if kind is None else kind.findall(f"{_XS}attribute")
        by_name = {each.get("name", ""): each for each in declared}
        for name, value in element.attrib.items():
            if name not in by_name:
                yield f"{element.tag}: no attribute {name}"
            elif not self._fits(by_name[name].get("type", ""), value):
                yield f"{element.tag}: {name}={value!r}"
        for name, each in by_name.items():
            if each.get("use") == "required" and name not in element.attrib:
                yield f"{element.tag}: {name} is required"

    def _fits(self, name: str, value: str) -> bool:
        if name == "xs:string":
            return True
        pattern = self._types[name].find(f"{_XS}restriction/{_XS}pattern")
        assert pattern is not None
        return re.fullmatch(pattern.get("value", ""), value) is not None

    def _children(self, kind: Element) -> Iterator[str]:
        """Yield the elements that a type may contain, in any order and number."""
        for group in kind.iter():
            assert group.tag in _KNOWN, group.tag
            if group.tag == f"{_XS}element":
                yield group.get("ref", "") or group.get("name", "")

"""Guess which mistake a wrong gradient comes from."""

from dataclasses import dataclass

__all__ = ["Evidence", "explain"]


@dataclass
class Evidence:
    name: str

    @classmethod
    def of(cls, item, leaf, jacobian, cotangent, outputs):
        return cls(item.name)


def explain(clue, evidence):
    return []

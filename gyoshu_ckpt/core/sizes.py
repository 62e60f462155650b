"""Sizes and counts for people."""

from __future__ import annotations


def format_bytes(size: int) -> str:
    """``format_bytes(1_500_000) == "1.5 MB"``; powers of 1000, as disks are sold."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.5 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def count_of(number: int, noun: str) -> str:
    """``count_of(1, "stage") == "1 stage"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

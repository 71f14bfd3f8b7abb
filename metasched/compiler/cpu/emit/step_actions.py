"""What a table of steps does between kernels, as functions that are called like them: it moves data and roots.

Each takes its arguments from a table: places, which are pairs of a root's number and an offset, and then numbers. Roots
are addresses of a call's own, so that where a loop's values are may change from step to step, and nothing is copied.

    metasched_copy(to, from; bytes)
        copies bytes; the two do not overlap.
    metasched_store(at; value)
        stores 64 bits.
    metasched_point(at; root)
        makes a root the address of a place.
    metasched_advance(; root, bytes)
        moves a root.
    metasched_swap(; root, root)
        changes two roots for one another.
    metasched_place(at, position; root, step, lowest, highest, bits)
        makes a root the address that is so many steps after a place as an integer of 32 or 64 bits says. Where that is
        out of the limits, what comes next in the table does not run.
"""

from __future__ import annotations

COPY = "metasched_copy"
STORE = "metasched_store"
POINT = "metasched_point"
ADVANCE = "metasched_advance"
SWAP = "metasched_swap"
PLACE = "metasched_place"

# The status of what leaves out the next entry of a table: no kernel returns it.
SKIP = 255


def place_text(n: int) -> list[str]:
    """Lines that compute the address of a place, `%at{n}`."""
    return [
        f"  %root.at{n} = getelementptr i64, ptr %arguments, i64 {2 * n}",
        f"  %root{n} = load i64, ptr %root.at{n}",
        f"  %base.at{n} = getelementptr ptr, ptr %roots, i64 %root{n}",
        f"  %base{n} = load ptr, ptr %base.at{n}",
        f"  %offset.at{n} = getelementptr i64, ptr %arguments, i64 {2 * n + 1}",
        f"  %offset{n} = load i64, ptr %offset.at{n}",
        f"  %at{n} = getelementptr i8, ptr %base{n}, i64 %offset{n}",
    ]


def number_text(n: int, places: int) -> list[str]:
    """Lines that load a number, `%number{n}`, which comes after so many places."""
    return [
        f"  %number.at{n} = getelementptr i64, ptr %arguments, i64 {2 * places + n}",
        f"  %number{n} = load i64, ptr %number.at{n}",
    ]


def _root_text(n: int) -> list[str]:
    """Lines that compute where the root is kept whose number is number `n`."""
    return [f"  %kept{n} = getelementptr ptr, ptr %roots, i64 %number{n}"]


def _action_text(name: str, places: int, numbers: int, lines: list[str]) -> str:
    head = [line for n in range(places) for line in place_text(n)]
    head += [line for n in range(numbers) for line in number_text(n, places)]
    body = "\n".join([*head, *lines])
    return f"define i32 @{name}(ptr %roots, ptr %arguments) nounwind {{\n{body}\n}}\n"


_RETURN_OK = "  ret i32 0"

ACTIONS_TEXT = "\n".join(
    [
        _action_text(COPY, 2, 1, ["  call ptr @memcpy(ptr %at0, ptr %at1, i64 %number0)", _RETURN_OK]),
        _action_text(STORE, 1, 1, ["  store i64 %number0, ptr %at0", _RETURN_OK]),
        _action_text(POINT, 1, 1, [*_root_text(0), "  store ptr %at0, ptr %kept0", _RETURN_OK]),
        _action_text(
            ADVANCE,
            0,
            2,
            [
                *_root_text(0),
                "  %old = load ptr, ptr %kept0",
                "  %new = getelementptr i8, ptr %old, i64 %number1",
                "  store ptr %new, ptr %kept0",
                _RETURN_OK,
            ],
        ),
        _action_text(
            SWAP,
            0,
            2,
            [
                *_root_text(0),
                *_root_text(1),
                "  %first = load ptr, ptr %kept0",
                "  %second = load ptr, ptr %kept1",
                "  store ptr %second, ptr %kept0",
                "  store ptr %first, ptr %kept1",
                _RETURN_OK,
            ],
        ),
        _action_text(
            PLACE,
            2,
            5,
            [
                *_root_text(0),
                "  %is.long = icmp eq i64 %number4, 64",
                "  br i1 %is.long, label %long, label %short",
                "long:",
                "  %position64 = load i64, ptr %at1, align 1",
                "  br label %loaded",
                "short:",
                "  %position32 = load i32, ptr %at1, align 1",
                "  %extended = sext i32 %position32 to i64",
                "  br label %loaded",
                "loaded:",
                "  %position = phi i64 [ %position64, %long ], [ %extended, %short ]",
                "  %low = icmp sge i64 %position, %number2",
                "  %high = icmp sle i64 %position, %number3",
                "  %inside = and i1 %low, %high",
                "  br i1 %inside, label %placed, label %outside",
                "placed:",
                "  %moved = mul i64 %position, %number1",
                "  %place = getelementptr i8, ptr %at0, i64 %moved",
                "  store ptr %place, ptr %kept0",
                _RETURN_OK,
                "outside:",
                f"  ret i32 {SKIP}",
            ],
        ),
        "declare ptr @memcpy(ptr, ptr, i64)\n",
    ]
)

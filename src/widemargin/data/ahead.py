"""Prefetch items in a background thread."""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")

_END = object()


def ahead(items: Generator[Item, None, None], depth: int = 2) -> Iterator[Item]:
    """Yield the items of `items`, prefetched by a thread that is up to `depth` items ahead.

    An error in `items` is raised here, in place of the item. Closing the iterator closes `items`.
    """
    with ThreadPoolExecutor(1) as pool:
        fetched = deque(pool.submit(next, items, _END) for _ in range(depth))
        try:
            while (item := fetched.popleft().result()) is not _END:
                fetched.append(pool.submit(next, items, _END))
                yield item  # type: ignore[misc]
        finally:
            for future in fetched:
                future.cancel()
            pool.submit(items.close).result()  # after the fetch under way

"""Side-by-side measurements of widemargin and its peers.

    python -m benchmarks.run --grid text --out benchmarks/results/text.jsonl
    python -m benchmarks.analyse benchmarks/results/text.jsonl
    python -m benchmarks.startup

Run from the root of the repository, with the `bench` extra installed and ``$WIDEMARGIN_DATA``
naming the folder that holds the data.
"""

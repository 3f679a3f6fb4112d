"""Side-by-side measurements of widemargin and its peers.

    python -m benchmarks.run --grid text                             # measures
    python -m benchmarks.analyse benchmarks/results/text.jsonl       # tables
    python -m benchmarks.plot benchmarks/results/text.jsonl          # pictures

`problems` has the grids of problems, `peers` one file per library. Run from the root of the
repository, with the `bench` extra installed and ``$WIDEMARGIN_DATA`` naming the folder that holds
the data; what is missing is skipped, and said so. ``make bench`` runs a selection, ``make
bench-full`` everything.
"""

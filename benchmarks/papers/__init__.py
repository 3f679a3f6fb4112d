"""The papers' own tables and figures, made anew: a script for each, a page for each.

    OMP_NUM_THREADS=1 python -m benchmarks.papers                       # all, about half an hour
    OMP_NUM_THREADS=1 python -m benchmarks.papers joachims ocas         # some papers
    OMP_NUM_THREADS=1 python -m benchmarks.papers.joachims rows cost    # some sections of one

rewrites tables, figures and verdicts in docs/papers/; what is written by hand between them stays.
"""

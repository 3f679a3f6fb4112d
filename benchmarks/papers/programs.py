"""What the authors' own programs took, counted once with the programs themselves."""

from __future__ import annotations

#: iterations of SVM-perf 3 with `-w 3`, eps = 0.001: (set, C_avg) -> iterations
SVM_PERF = {
    ("ijcnn1", 1e2): 32,
    ("ijcnn1", 1e4): 134,
    ("a9a", 1e2): 31,
    ("a9a", 1e3): 113,
    ("rcv1", 1e4): 38,
}

#: iterations of libocas 0.97, to a gap of 1e-3: (set, C_avg) -> CPA, OCAS
LIBOCAS = {
    ("a9a", 1e2): (35, 13),
    ("a9a", 1e3): (119, 22),
    ("a9a", 1e4): (None, 52),
    ("ijcnn1", 1e2): (37, 16),
    ("ijcnn1", 1e4): (166, 32),
    ("rcv1", 1e4): (63, 34),
}

#: passes of the authors' own programs on rcv1 at eps = 0.1: C -> LIBLINEAR, AVSF
AVSF = {1.0: (8.7, 12.3), 10.0: (21.7, 22.3), 100.0: (122, 31.6), 1000.0: (681, 54)}

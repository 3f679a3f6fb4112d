"""One cluster for all tests of this folder."""

import dask
import pytest
from clusters import QUIET
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

# Processes that are forked off one which has imported everything already start much sooner.
FORKED = {"distributed.worker.multiprocessing-method": "forkserver"}

# A cluster looks at a lost worker's place again after a while, and closes it for good if it is
# empty. It is empty, too, for a moment, when a later test has just killed the worker that took it.
KEPT = {"distributed.deploy.lost-worker-timeout": "1h"}


@pytest.fixture(scope="session")
def client():
    with dask.config.set(FORKED | KEPT):
        get_mp_context().set_forkserver_preload(["distributed", "widemargin.dask", "clusters"])
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, **QUIET) as cluster,
            Client(cluster) as client,
        ):
            yield client

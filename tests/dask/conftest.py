"""One cluster for all tests of this folder."""

import dask
import pytest
from clusters import QUIET
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

# Processes that are forked off one which has imported everything already start much sooner.
FORKED = {"distributed.worker.multiprocessing-method": "forkserver"}


@pytest.fixture(scope="session")
def client():
    with dask.config.set(FORKED):
        get_mp_context().set_forkserver_preload(["distributed", "widemargin.dask", "clusters"])
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, **QUIET) as cluster,
            Client(cluster) as client,
        ):
            yield client

// Sums over all blocks of a kernel whose blocks wait for each other.

// All threads of all blocks wait here for each other, so they must run at the same time. gate is
// two zeros before the first call: how many blocks have come, and how often all of them have.
__device__ void meet(unsigned* gate) {
    __syncthreads();
    if (threadIdx.x == 0) {
        volatile unsigned* times = gate + 1;
        const unsigned before = *times;
        __threadfence();
        if (atomicAdd(gate, 1u) == gridDim.x - 1) {
            atomicExch(gate, 0u);
            __threadfence();
            atomicAdd(gate + 1, 1u);
        } else {
            while (*times == before) {}
        }
        __threadfence();
    }
    __syncthreads();
}

// total = the sums over all threads of all blocks, for each of them, in a fixed order. A warp adds
// up the blocks' parts of one sum, all warps at the same time: all blocks wait for the slowest.
template <int K> __device__ void all_sums(double (&sums)[K], double* partial, unsigned* gate,
                                          double (&total)[K]) {
    __shared__ double of_all[K];
    const double sum = block_sum(sums);
    if (threadIdx.x < K) partial[threadIdx.x * gridDim.x + blockIdx.x] = sum;
    meet(gate);
    for (int k = threadIdx.x >> 5; k < K; k += blockDim.x >> 5) {
        double some = 0.0;
        #pragma unroll 8
        for (int j = threadIdx.x & 31; j < (int)gridDim.x; j += 32)
            some += __ldcg(partial + k * gridDim.x + j);
        for (int away = 16; away > 0; away >>= 1)
            some += __shfl_down_sync(0xffffffffu, some, away);
        if ((threadIdx.x & 31) == 0) of_all[k] = some;
    }
    __syncthreads();
    for (int k = 0; k < K; ++k) total[k] = of_all[k];
}

// Two-class losses, by the numbers of losses.py: as kernels/loss.py.

struct Loss {
    double eps, low, high, bend, steepness;
};

__device__ Loss loss_of(double eps, double low, double high, double bend) {
    return {eps, low, high, bend, bend > 0.0 ? 1.0 / bend : 1e300};
}

// How far a residual is beyond eps, with its sign; 0 within eps.
__device__ double beyond(const Loss& loss, double residual) {
    return residual - fmin(fmax(residual, -loss.eps), loss.eps);
}

// The slope of the loss where a residual is beyond eps by `excess`.
__device__ double slope_at(const Loss& loss, double excess) {
    return fmin(fmax(excess * loss.steepness, loss.low), loss.high);
}

// Its curvature there: the steepness, or zero.
__device__ double curvature_at(const Loss& loss, double excess) {
    const double steep = excess * loss.steepness;
    return excess != 0.0 && steep > loss.low && steep < loss.high ? loss.steepness : 0.0;
}

// How many of the residuals at which the piece changes are passed. At a kink a row is on the piece
// between both.
__device__ int piece_at(const Loss& loss, double residual) {
    const int above = (residual > loss.eps) + (residual > loss.eps + loss.high * loss.bend);
    if (loss.low == 0.0) return above;
    return above + (residual >= -loss.eps) + (residual > loss.low * loss.bend - loss.eps);
}

// A row's loss, its slope, its term of -r* of the slopes, and 1 if it has a loss.
struct Cut {
    double loss, slope, height, on;
};

__device__ Cut cut_of(double y, double cost, const Loss& loss, double score) {
    const double excess = beyond(loss, 1.0 - y * score), a = slope_at(loss, excess);
    const double pull = cost * a;
    return {pull * (excess - 0.5 * loss.bend * a), -pull * y,
            pull * (1.0 - 0.5 * loss.bend * a) - loss.eps * fabs(pull), a != 0.0};
}

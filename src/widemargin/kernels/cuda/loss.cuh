// The losses of two classes.

// A row's loss, its slope, its share of -r* of the slopes, and 1 if it has a loss.
struct Cut {
    double loss, slope, height, on;
};

__device__ Cut cut_of(double y, double cost, bool squared, double score) {
    const double slack = 1.0 - y * score, on = 0.5 + copysign(0.5, slack);
    const double pull = squared ? 2.0 * on * cost * slack : on * cost;
    const double loss = squared ? 0.5 * pull * slack : pull * slack;
    return {loss, -pull * y, squared ? pull - loss : pull, on};
}

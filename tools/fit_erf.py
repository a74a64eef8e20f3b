"""Fit the coefficients of erf in `minitorch_attn/backend/special.py` (requires mpmath).

The program approximates R(t) = atanh(erf(x)) / x, where t = x^2, by P(t) / Q(t) on [0, limit^2].
The fit minimizes the largest relative error of tanh(x R). Each round solves a linear least-squares
problem. In each round, the weights are divided by Q from the previous round (Loeb's method), and
points with a large error get a larger weight (Lawson's method).

The program prints the coefficients of P - 9/8 Q and of Q, lowest power first, because `special.py`
computes R as 9/8 + (P - 9/8 Q) / Q. There, P is the name of the polynomial P - 9/8 Q.

    python tools/fit_erf.py
"""

import mpmath as mp

mp.mp.dps = 50


def target(t):
    """Return R(t) = atanh(erf(x)) / x for x = sqrt(t), the function to fit."""
    x = mp.sqrt(t)
    return mp.log((2 - mp.erfc(x)) / mp.erfc(x)) / 2 / x


def weight(t):
    """Return the derivative of log(erf(x)) with respect to R, for x = sqrt(t).

    To first order, an error e in R(t) causes a relative error of weight(t) * e in erf(x).
    """
    x = mp.sqrt(t)
    return x * mp.erfc(x) * (2 - mp.erfc(x)) / mp.erf(x)


def fit(limit, degree, points, rounds):
    """Return the best (error, P, Q) of `rounds` rounds. P and Q have the same degree."""
    end = mp.mpf(limit) ** 2
    ts = [end * (1 - mp.cos(mp.pi * (k + mp.mpf(1) / 2) / points)) / 2 for k in range(points)]
    values, weights = [target(t) for t in ts], [weight(t) for t in ts]
    emphasis, denominators = [mp.mpf(1)] * points, [mp.mpf(1)] * points
    best = None
    for round_number in range(rounds):
        a, b = mp.matrix(points, 2 * degree + 1), mp.matrix(points, 1)
        for i, t in enumerate(ts):
            scale = weights[i] * mp.sqrt(emphasis[i]) / abs(denominators[i])
            powers = [(t / end) ** k for k in range(degree + 1)]
            for k in range(degree + 1):
                a[i, k] = scale * powers[k]
            for k in range(1, degree + 1):
                a[i, degree + k] = -scale * values[i] * powers[k]
            b[i] = scale * values[i]
        solution = list(mp.lu_solve(a.T * a, a.T * b))
        p, q = solution[: degree + 1], [mp.mpf(1), *solution[degree + 1 :]]
        denominators = [mp.polyval(q[::-1], t / end) for t in ts]
        errors = [
            abs(weights[i] * (mp.polyval(p[::-1], t / end) / denominators[i] - values[i]))
            for i, t in enumerate(ts)
        ]
        if best is None or max(errors) < best[0]:
            best = max(errors), p, q
        if round_number >= 2:
            mean = sum(errors) / points
            emphasis = [e * error / mean for e, error in zip(emphasis, errors, strict=True)]
            mean = sum(emphasis) / points
            emphasis = [max(e / mean, mp.mpf(10) ** -12) for e in emphasis]
    error, p, q = best
    p, q = ([c / end**k for k, c in enumerate(coefficients)] for coefficients in (p, q))
    return error, [c / q[-1] for c in p], [c / q[-1] for c in q]


def main():
    """Print the coefficients of erf for float32 and for float64."""
    for name, limit, degree, points, rounds in (
        ("float32", "3.95", 3, 200, 60),
        ("float64", "5.93", 9, 300, 80),
    ):
        error, p, q = fit(limit, degree, points, rounds)
        shifted = [a - mp.mpf("1.125") * b for a, b in zip(p, q, strict=True)]
        print(name, "largest relative error of the fit", mp.nstr(error, 3))
        print("  P", [mp.nstr(c, 19) for c in shifted])
        print("  Q", [mp.nstr(c, 19) for c in q[:-1]])


if __name__ == "__main__":
    main()

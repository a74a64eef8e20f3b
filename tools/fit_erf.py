"""Compute the coefficients of minitorch_attn/backend/special.py (needs mpmath).

Fits R(t) = atanh(erf(x)) / x with t = x^2 by P(t) / Q(t) on [0, limit^2] so that the largest
relative error of tanh(x R) is smallest. Each round solves a linear least-squares problem: Q from
the round before is the denominator of the weights (Loeb), and points with a large error count more
in the next round (Lawson). Prints P - 9/8 Q and Q, lowest power first.

    python tools/fit_erf.py
"""

import mpmath as mp

mp.mp.dps = 50


def target(t):
    """Return R(t)."""
    x = mp.sqrt(t)
    return mp.log((2 - mp.erfc(x)) / mp.erfc(x)) / 2 / x


def weight(t):
    """Return the relative error of erf that an error of 1 in R makes."""
    x = mp.sqrt(t)
    return x * mp.erfc(x) * (2 - mp.erfc(x)) / mp.erf(x)


def fit(limit, degree, points, rounds):
    """Return the best (error, P, Q) with P and Q of one degree, found in `rounds` rounds."""
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
    """Print both fits."""
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

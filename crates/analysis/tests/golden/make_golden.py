"""Writes golden.json: what SciPy, NumPy, diptest and statsmodels say of a few samples, for tests/analysis/golden.rs.

Run, in this directory, only when a case is added or the reference versions change:

    python3 -m venv venv
    venv/bin/pip install numpy==2.4.6 scipy==1.17.1 diptest==0.12.0 statsmodels==0.15.0
    venv/bin/python make_golden.py
    rm -r venv

The samples are seeded, so the same versions write the same file; both are committed. Where the
crate means to differ from a reference, the place says so with the word "differs".
"""

import json
import platform
from fractions import Fraction

import diptest
import numpy as np
import scipy
import statsmodels
import statsmodels.api as sm
from scipy import stats
from scipy.stats import mstats

rng = np.random.default_rng(20260101)


def samples():
    """Shapes that timings have, and some that they should not have."""
    made = {
        "normal_7": rng.normal(100.0, 3.0, 7),
        "normal_10": rng.normal(100.0, 3.0, 10),
        "normal_16": rng.normal(100.0, 3.0, 16),
        "normal_113": rng.normal(1e6, 5.0, 113),
        "lognormal_20": rng.lognormal(3.0, 0.5, 20),
        "lognormal_500": rng.lognormal(3.0, 0.7, 500),
        "heavy_40": 50.0 + rng.standard_t(2, 40),
        "heavy_800": 50.0 + rng.standard_t(2, 800),
        "exponential_31": 1e-9 * rng.exponential(40.0, 31),
        "ticks_24": 25.0 * rng.integers(3, 7, 24),
        "ticks_200": 10.0 * rng.poisson(4.0, 200),
        "negative_12": rng.normal(-0.5, 1.0, 12),
        "two_modes_150": np.concatenate([rng.normal(20, 1, 90), rng.normal(30, 1.5, 60)]),
    }
    for sample in made.values():
        rng.shuffle(sample)
    # Left in its order, which is what it is for.
    walk = np.zeros(240)
    for i in range(1, 240):
        walk[i] = 0.8 * walk[i - 1] + rng.normal()
    made["correlated_240"] = 300.0 + walk
    return made


def floats(values):
    return [float(v) for v in values]


def quantiles(made):
    qs = (0.0, 0.01, 0.05, 0.25, 0.5, 0.62, 0.75, 0.9, 0.99, 0.999, 1.0)
    return [
        {"sample": name, "q": q, "value": float(np.quantile(x, q))}
        for name, x in made.items()
        for q in qs
    ]


def moments(made):
    return [
        {
            "sample": name,
            "median": float(np.median(x)),
            "mean": float(np.mean(x)),
            "sd": float(np.std(x, ddof=1)),
        }
        for name, x in made.items()
    ]


def binomial_levels():
    """The narrowest symmetric interval with a level of 0.95, by SciPy's binomial distribution.

    Differs at n = 5 only, where none reaches 0.95 and rule 15 takes [min, max].
    """
    rows = []
    for n in [*range(5, 61), 75, 100, 101, 500, 999, 1000, 4567, 10_000, 99_999, 100_000]:
        low = np.arange(n // 2)
        level = 1.0 - 2.0 * stats.binom.cdf(low, n, 0.5)
        good = np.flatnonzero(level >= 0.95)
        best = int(good[-1]) if good.size else 0
        rows.append({"n": n, "low": best, "high": n - 1 - best, "level": float(level[best])})
    return rows


def share(part, whole):
    """part ÷ whole, such that SciPy's int(share * whole) is part again."""
    ratio = part / whole
    return ratio if int(ratio * whole) == part else float(np.nextafter(ratio, 1.0))


def trimming(made):
    rows = []
    for name, x in made.items():
        trials = len(x)
        kept = max(n for n in range(trials + 1) if -(-16 * n // 10) <= trials)
        low, high = (trials - kept) // 2, -(-(trials - kept) // 2)
        limits = (share(low, trials), share(high, trials))
        rest = mstats.trim(x, limits, relative=True).compressed()
        assert len(rest) == kept, (name, len(rest), kept)
        mean = float(mstats.trimmed_mean(x, limits))
        if low == high:
            assert np.isclose(mean, stats.trim_mean(x, limits[0]), rtol=1e-13)
        winsorised = mstats.winsorize(x, limits).data
        se = float(mstats.trimmed_stde(x, limits))
        assert np.isclose(se, np.std(winsorised, ddof=1) * np.sqrt(trials) / kept, rtol=1e-12)
        sd = float(np.std(rest, ddof=1))
        rows.append({"sample": name, "n": kept, "mean": mean, "sd": sd, "se": se})
    return rows


def trimming_over():
    """Processes of different lengths and levels; the error is that of a regression on nothing but
    a constant, clustered by process, of the winsorised values.
    """
    other = np.random.default_rng(14)
    rows = []
    for lengths, between in (((12,) * 5, 1.0), ((80,) * 10, 0.3), ((3, 40, 11, 9), 5.0), ((8, 8), 0)):
        processes = [40.0 + between * other.normal() + other.exponential(1.0, n) for n in lengths]
        x = np.concatenate(processes)
        trials = len(x)
        kept = max(n for n in range(trials + 1) if -(-16 * n // 10) <= trials)
        limits = (share((trials - kept) // 2, trials), share(-(-(trials - kept) // 2), trials))
        winsorised = mstats.winsorize(x, limits).data
        of = np.repeat(np.arange(len(lengths)), lengths)
        fit = sm.OLS(winsorised, np.ones(trials)).fit(cov_type="cluster", cov_kwds={"groups": of})
        rows.append(
            {
                "processes": [floats(p) for p in processes],
                "n": kept,
                "mean": float(mstats.trimmed_mean(x, limits)),
                "se": float(fit.bse[0]) * trials / kept,
            }
        )
    return rows


def trends(made):
    rows = []
    for name, y in made.items():
        x = np.arange(len(y), dtype=float)
        # Differs above 400 points: the crate thins them, and SciPy is given the thinned ones.
        keep = np.arange(len(x)) if len(x) <= 400 else np.arange(400) * (len(x) - 1) // 399
        got = stats.theilslopes(y[keep], x[keep], 0.95, method="separate")
        rows.append(trend(name, x, got))
    x = np.array([1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 8, 9], dtype=float)
    got = stats.theilslopes(made["normal_16"], x, 0.95, method="separate")
    rows.append(trend("normal_16", x, got))
    return rows


def trend(name, x, got):
    return {
        "sample": name,
        "x": floats(x),
        "slope": float(got.slope),
        "low": float(got.low_slope),
        "high": float(got.high_slope),
    }


def lines(made):
    rows = []
    for name, noise in made.items():
        x = np.arange(1, len(noise) + 1) * 64.0
        y = 12.5 + 3.25 * x + (noise - noise.mean())
        got = stats.linregress(x, y)
        error = exact_slope_error(x, y)
        if got.rvalue**2 < 1 - 1e-6:
            assert np.isclose(error, got.stderr, rtol=1e-9)
        rows.append(
            {
                "x": floats(x),
                "y": floats(y),
                "intercept": float(got.intercept),
                "slope": float(got.slope),
                "r_squared": float(got.rvalue**2),
                "slope_standard_error": error,
            }
        )
    return rows


def exact_slope_error(x, y):
    """Differs from SciPy, which takes it from 1 - r² and so loses all digits for a nearly perfect
    line, as timings of N and 2N iterations are. Here from the residuals, in whole fractions.
    """
    x, y = [Fraction(float(v)) for v in x], [Fraction(float(v)) for v in y]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    xx = sum((a - mean_x) ** 2 for a in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / xx
    residual = sum((b - mean_y - slope * (a - mean_x)) ** 2 for a, b in zip(x, y))
    return float(residual / (len(x) - 2) / xx) ** 0.5


def autocorrelations(made):
    rows = []
    for name, x in made.items():
        for lag in (1, 2, 5, 10):
            if lag + 2 <= len(x):
                value, rank = acf(x, lag), acf(stats.rankdata(x), lag)
                rows.append({"sample": name, "lag": lag, "value": value, "rank": rank})
    return rows


def acf(x, lag):
    d = x - x.mean()
    whole = np.correlate(d, d, "full")[len(d) - 1 :]
    return float(whole[lag] / whole[0])


def blocks(made):
    return [
        {"sample": name, "blocks": n, "means": [float(b.mean()) for b in np.split(x, cuts)]}
        for name, x in made.items()
        for n in (2, 6, 7)
        for cuts in [[i * len(x) // n for i in range(1, n)]]
    ]


def outliers(made):
    rows = []
    for name, x in made.items():
        q1, q3 = np.percentile(x, [25, 75])
        r = q3 - q1
        rows.append(
            {
                "sample": name,
                "low_severe": int(np.sum(x < q1 - 3 * r)),
                "low_mild": int(np.sum((x >= q1 - 3 * r) & (x < q1 - 1.5 * r))),
                "high_mild": int(np.sum((x > q3 + 1.5 * r) & (x <= q3 + 3 * r))),
                "high_severe": int(np.sum(x > q3 + 3 * r)),
            }
        )
    return rows


def rank_tests(made):
    """Differs in the choice only: SciPy's `auto` leaves the exact way when both samples exceed 8,
    the crate at 1 024 pairs or a tie. So the way is named here.
    """
    pairs = []
    for m, n in ((1, 1), (2, 3), (5, 5), (5, 12), (8, 8), (10, 10), (10, 20), (20, 20), (30, 34)):
        for shift in (0.0, 0.6, 2.5):
            pairs.append((rng.normal(0, 1, m), rng.normal(shift, 1, n), "exact"))
    for m, n in ((35, 40), (50, 60), (200, 300)):
        for shift in (0.0, 0.2, 3.0):
            pairs.append((rng.lognormal(0, 1, m), rng.lognormal(shift, 1, n), "asymptotic"))
    for m, n in ((4, 6), (10, 10), (12, 20), (60, 45)):
        for shift in (0, 1):
            a, b = rng.integers(0, 6, m).astype(float), shift + rng.integers(0, 6, n).astype(float)
            b[0] = a[0]
            pairs.append((a, b, "asymptotic"))
    pairs.append((made["ticks_24"], made["ticks_24"][:9], "asymptotic"))
    rows = []
    for a, b, method in pairs:
        got = stats.mannwhitneyu(a, b, alternative="two-sided", method=method)
        u, p = float(got.statistic), float(got.pvalue)
        rows.append({"a": floats(a), "b": floats(b), "method": method, "u": u, "p": p})
    return rows


def ratios(made):
    """Differs in the generator, so the limits agree only as two bootstraps of one sample do."""
    rows = []
    for a, b in (
        ("normal_10", "normal_16"),
        ("lognormal_20", "normal_10"),
        ("heavy_40", "lognormal_20"),
        ("normal_10", "negative_12"),
    ):
        got = stats.bootstrap(
            (made[a], made[b]),
            lambda x, y, axis=-1: np.median(y, axis=axis) / np.median(x, axis=axis),
            n_resamples=50_000,
            method="percentile",
            vectorized=True,
            rng=np.random.default_rng(5),
        ).confidence_interval
        ratio = float(np.median(made[b]) / np.median(made[a]))
        rows.append(
            {"a": a, "b": b, "ratio": ratio, "low": float(got.low), "high": float(got.high)}
        )
    return rows


def discoveries():
    """Few p values and many, some tied, some of them 0 and 1, in no order."""
    lists = [[0.01], [0.5, 0.01], [0.04, 0.04, 0.04], [1.0, 0.0, 0.3, 0.3]]
    other = np.random.default_rng(28)
    lists += [floats(other.uniform(0, 1, n)) for n in (7, 41)]
    lists += [floats(np.concatenate([other.uniform(0, 1, 30), other.uniform(0, 0.01, 11)]))]
    return [
        {"p": p, "adjusted": floats(stats.false_discovery_control(p, method="bh"))} for p in lists
    ]


def dips(made):
    return [{"sample": name, "value": float(diptest.dipstat(x))} for name, x in made.items()]


def main():
    made = samples()
    golden = {
        "made_with": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "diptest": diptest.__version__,
            "statsmodels": statsmodels.__version__,
        },
        "samples": {name: floats(x) for name, x in made.items()},
        "moments": moments(made),
        "quantile": quantiles(made),
        "order_interval": binomial_levels(),
        "trimmed": trimming(made),
        "theil_sen": trends(made),
        "line": lines(made),
        "autocorrelation": autocorrelations(made),
        "outliers": outliers(made),
        "mann_whitney": rank_tests(made),
        "ratio": ratios(made),
        "dip": dips(made),
        "blocks": blocks(made),
        "discovery": discoveries(),
        "trimmed_over": trimming_over(),
    }
    with open("golden.json", "w", encoding="utf-8") as out:
        # One line a case, so that a change shows in a diff as the cases it changed.
        sections = []
        for section, rows in golden.items():
            if isinstance(rows, dict):
                body = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items())
                sections.append(f"{json.dumps(section)}: {{\n{body}\n}}")
            else:
                body = ",\n".join(json.dumps(row) for row in rows)
                sections.append(f"{json.dumps(section)}: [\n{body}\n]")
        out.write("{\n" + ",\n".join(sections) + "\n}\n")


if __name__ == "__main__":
    main()

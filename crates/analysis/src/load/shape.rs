//! Whether a sweep reached saturation, and where.

use super::laws::mean_value_analysis;
use crate::statistics::{mean, prediction_half_width, student_limit};

/// The plateau begins at this share of the highest throughput.
const PLATEAU: f64 = 0.95;
/// Its first step and the largest number of clients differ at least by this factor.
const SPAN_MIN: f64 = 1.5;
/// From there on throughput grows at most this share as fast as the number of clients: d ln X ÷
/// d ln N, the upper limit at 95 %, one-sided.
const GROWTH_MAX: f64 = 0.25;
/// Without saturation, the largest number of clients would reach this multiple of the plateau.
const IDEAL_MIN: f64 = 1.3;
/// Steps at which random service loses more than this share of the saturation throughput do not
/// count in its estimate.
const LOSS_MAX: f64 = 0.005;
/// The error probability of the limit of the slope, and of all tests of a fall together.
const SIGNIFICANCE: f64 = 0.05;

/// A step in one sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPoint {
    /// Per second.
    pub throughput: f64,
    /// The mean.
    pub response_s: f64,
}

/// A step: valid or noisy.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapePoint {
    pub clients: u32,
    /// In the order of the sweeps, which is the same for all points.
    pub sweeps: Vec<SweepPoint>,
}

/// Points by ascending number of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeCurve {
    pub think_s: f64,
    pub points: Vec<ShapePoint>,
}

/// A value and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShapeEstimate {
    pub value: f64,
    /// `None` below two sweeps.
    pub interval: Option<[f64; 2]>,
}

impl ShapeEstimate {
    /// Student's t over the logarithms of the values of independent sweeps. Values of one sweep may
    /// depend on each other in any way, as each sweep has one value here.
    pub fn of_sweeps(values: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let centre = mean(&logs).filter(|_| logs.iter().all(|log| log.is_finite()))?;
        // A prediction interval is wider by √(n + 1) than the interval of the mean.
        let half = prediction_half_width(&logs).map(|it| it / (logs.len() as f64 + 1.0).sqrt());
        let interval = half.map(|half| [(centre - half).exp(), (centre + half).exp()]);
        Some(Self { value: centre.exp(), interval })
    }

    /// The lower limit, or the value without an interval.
    #[must_use]
    pub fn low(self) -> f64 {
        self.interval.map_or(self.value, |[low, _]| low)
    }

    /// The upper limit, or the value without an interval.
    #[must_use]
    pub fn high(self) -> f64 {
        self.interval.map_or(self.value, |[_, high]| high)
    }

    /// With an upper limit for a true value of which this share was measured.
    fn widened(self, share: f64) -> Self {
        Self { interval: self.interval.map(|[low, high]| [low, high / share]), ..self }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// Per second: the mean over `steps`. Its upper limit includes what random service may lose
    /// there: at one station, or at two, the second as busy as the growth over the plateau allows.
    /// If throughput falls again, this is the mean around its maximum, and nothing is included.
    pub throughput: ShapeEstimate,
    /// The steps of the plateau at which random service loses at most 0.5 %, before a fall; the
    /// last one if there is none.
    pub steps: Vec<u32>,
    /// The smallest number of clients with 95 % of the highest throughput, less one standard error.
    pub plateau_from: u32,
    /// The number of clients from which on throughput is more than 5 % below the maximum, where
    /// that is significant.
    pub falls_from: Option<u32>,
    /// (D + Z) ÷ Dmax. `None` unless one client was measured.
    pub knee: Option<ShapeEstimate>,
    /// The number of clients at 95 % of the saturation throughput, by linear interpolation between
    /// the measured numbers, in each sweep. Throughput is concave below saturation, so that the
    /// exact number may be smaller, but not below the measured one before it. It is the smallest
    /// measured number if that has 95 % already.
    pub clients_95: ShapeEstimate,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Saturated(Saturation),
    NotSaturated { up_to: u32, why: String },
}

/// The shape of a curve. Saturation needs evidence, and is otherwise not claimed:
///
/// - The plateau begins at the first step with 95 % of the highest throughput, less one standard
///   error; the largest number of clients is at least 1.5 times as many.
/// - From there on throughput grows at most a quarter as fast as the number of clients: the upper
///   limit, one-sided at 95 %, of the slope of a line through the mean logarithms over ln N. Its
///   error is that of windows: the residuals from the means of steps and of sweeps.
/// - At the largest number, N ÷ (D + Z) is at least 1.3 times the throughput of the plateau.
#[must_use]
pub fn shape(curve: &ShapeCurve) -> Shape {
    let saturation = Logs::from_curve(curve).ok_or_else(|| NO_STEPS.to_owned()).and_then(|logs| {
        let plateau = logs.evidence()?;
        logs.saturation(&plateau).ok_or_else(|| NO_STEPS.to_owned())
    });
    let up_to = curve.points.last().map_or(0, |point| point.clients);
    match saturation {
        Ok(saturation) => Shape::Saturated(saturation),
        Err(why) => Shape::NotSaturated { up_to, why },
    }
}

const NO_STEPS: &str = "fewer than two steps are usable";

/// Indices of steps.
struct ShapePlateau {
    first: usize,
    /// The last one without a fall.
    last: usize,
}

/// The complete sweeps of a curve.
struct Logs<'c> {
    curve: &'c ShapeCurve,
    clients: Vec<f64>,
    /// The throughput of each step in each sweep.
    sweeps: Vec<Vec<f64>>,
    /// The mean logarithm of each step.
    means: Vec<f64>,
    /// The variance of a mean logarithm without that of whole sweeps, and its degrees of freedom.
    variance: f64,
    freedom: f64,
}

impl<'c> Logs<'c> {
    fn from_curve(curve: &'c ShapeCurve) -> Option<Self> {
        let points = &curve.points;
        let sweep_count = points.iter().map(|point| point.sweeps.len()).min()?;
        let sweeps: Vec<Vec<f64>> = (0..sweep_count)
            .map(|at| points.iter().map(|point| point.sweeps[at].throughput).collect())
            .collect();
        let is_good = |rate: &f64| rate.is_finite() && *rate > 0.0;
        if points.len() < 2 || sweeps.is_empty() || !sweeps.iter().flatten().all(is_good) {
            return None;
        }
        let means: Vec<f64> = (0..points.len())
            .map(|at| sweeps.iter().map(|sweep| sweep[at].ln()).sum::<f64>() / sweep_count as f64)
            .collect();
        let grand = mean(&means)?;
        let squares = |sweep: &Vec<f64>| {
            let shift =
                sweep.iter().map(|rate| rate.ln()).sum::<f64>() / sweep.len() as f64 - grand;
            let residual = |(rate, mean): (&f64, &f64)| (rate.ln() - shift - mean).powi(2);
            sweep.iter().zip(&means).map(residual).sum::<f64>()
        };
        let freedom = ((sweep_count - 1) * (points.len() - 1)) as f64;
        let variance = match freedom > 0.0 {
            true => sweeps.iter().map(squares).sum::<f64>() / freedom / sweep_count as f64,
            false => 0.0,
        };
        let clients = points.iter().map(|point| f64::from(point.clients)).collect();
        let logs = Self { curve, clients, sweeps, means, variance, freedom };
        let is_known = logs.cycles().all(|seconds| seconds.is_finite() && seconds > 0.0);
        is_known.then_some(logs)
    }

    /// Student's t that is exceeded with this probability; 0 with one sweep, which shows no error.
    fn limit(&self, probability: f64) -> f64 {
        student_limit(probability, self.freedom).unwrap_or(0.0)
    }

    fn number(&self, at: usize) -> u32 {
        self.curve.points[at].clients
    }

    fn evidence(&self) -> Result<ShapePlateau, String> {
        let end = self.means.len() - 1;
        let peak =
            (0..=end).fold(0, |best, at| if self.means[at] > self.means[best] { at } else { best });
        let least = self.means[peak] + PLATEAU.ln();
        // The highest of noisy means is above its true value.
        let difference_error = (2.0 * self.variance).sqrt();
        let begins = |mean: &f64| *mean >= least - difference_error;
        let first = self.means.iter().position(begins).unwrap_or(peak);
        let error = self.limit(SIGNIFICANCE / self.means.len() as f64) * difference_error;
        let last = (peak..=end).rev().find(|at| self.means[*at] + error >= least).unwrap_or(peak);
        let (from, to) = (self.number(first), self.number(end));
        if first == end {
            let (before, growth) = (self.number(end - 1), self.means[end] - self.means[end - 1]);
            let percent = 100.0 * growth.exp_m1();
            return Err(format!("throughput grew by {percent:.0} % from {before} to {to} clients"));
        }
        if self.clients[end] < SPAN_MIN * self.clients[first] {
            let text = format!("level from {from} to {to} clients only: below a factor {SPAN_MIN}");
            return Err(text);
        }
        let slope = self.slope_limit(first);
        if slope > GROWTH_MAX {
            let percent = 100.0 * (slope * (self.clients[end] / self.clients[first]).ln()).exp_m1();
            // No client can ask more often than it did alone.
            let most = 100.0 * (self.clients[end] / self.clients[first] - 1.0);
            if percent >= most {
                let text = "undecided: intervals are too wide to see growth";
                return Err(format!("{text} from {from} to {to} clients"));
            }
            let text = format!("growth of up to {percent:.0} % from {from} to {to} clients");
            return Err(format!("{text} is not excluded"));
        }
        let knee = self.cycle_s() * mean(&self.means[first..=last]).map_or(0.0, f64::exp);
        if self.clients[end] < IDEAL_MIN * knee {
            return Err(format!("{to} clients are below {IDEAL_MIN} times the knee, {knee:.1}"));
        }
        Ok(ShapePlateau { first, last })
    }

    /// The upper limit of the slope of the logarithm from a step to the last one.
    fn slope_limit(&self, first: usize) -> f64 {
        let (slope, squares) = self.slope(first, |at| self.means[at]);
        slope + self.limit(SIGNIFICANCE) * (self.variance / squares).sqrt()
    }

    /// The slope of a logarithm from a step to the last one, by least squares over ln N, and the
    /// sum of the squares of ln N.
    fn slope(&self, first: usize, log: impl Fn(usize) -> f64) -> (f64, f64) {
        let x: Vec<f64> = self.clients[first..].iter().map(|clients| clients.ln()).collect();
        let centre = x.iter().sum::<f64>() / x.len() as f64;
        let squares: f64 = x.iter().map(|x| (x - centre).powi(2)).sum();
        let products = x.iter().zip(first..).map(|(x, at)| (x - centre) * log(at));
        (products.sum::<f64>() / squares, squares)
    }

    /// D + Z: measured at one client, otherwise at most R + Z of the smallest number of clients.
    fn cycle_s(&self) -> f64 {
        let responses: Vec<f64> = self.cycles().collect();
        mean(&responses).unwrap_or(0.0)
    }

    /// R + Z at the smallest number of clients in each sweep.
    fn cycles(&self) -> impl Iterator<Item = f64> {
        let first = &self.curve.points[0].sweeps[..self.sweeps.len()];
        first.iter().map(|sweep| sweep.response_s + self.curve.think_s)
    }

    /// The throughput at a step if service is random. Demand that is not of the bottleneck is a
    /// delay, but for a second station with at most this share of Dmax.
    fn random_service(&self, at: usize, saturation: f64, share: f64) -> f64 {
        let longest = 1.0 / saturation;
        let rest = (self.cycle_s() - self.curve.think_s - longest).max(0.0);
        let second = rest.min(share * longest);
        let delay = (self.cycle_s() - longest - second).max(0.0);
        mean_value_analysis(&[longest, second], delay, self.number(at))
    }

    /// The largest share of a second station with which throughput would not grow faster than it
    /// may have grown; 0 if random service grows faster anyway.
    fn second_share(&self, first: usize, saturation: f64) -> f64 {
        let limit = self.slope_limit(first);
        let log = |at, share| self.random_service(at, saturation, share).ln();
        let shares = (1..=10).rev().map(|tenths| f64::from(tenths) / 10.0);
        let mut possible =
            shares.filter(|share| self.slope(first, |at| log(at, *share)).0 <= limit);
        possible.next().unwrap_or(0.0)
    }

    /// The largest saturation throughput that the plateau may have with random service, and the
    /// share of a second station.
    fn random_limit(&self, plateau: &ShapePlateau) -> Option<(f64, f64)> {
        let mean_rate = mean(&self.means[plateau.first..=plateau.last])?.exp();
        let (mut level, mut share) = (mean_rate, 0.0);
        for _ in 0..10 {
            share = self.second_share(plateau.first, level);
            if share == 0.0 {
                return Some((mean_rate, share));
            }
            let rates = (plateau.first..=plateau.last)
                .map(|at| self.random_service(at, level, share))
                .collect::<Vec<f64>>();
            level *= mean_rate / mean(&rates)?;
        }
        Some((level, share))
    }

    fn saturation(&self, plateau: &ShapePlateau) -> Option<Saturation> {
        let (level, share) = self.random_limit(plateau)?;
        let loss = |at: &usize| 1.0 - self.random_service(*at, level, share) / level;
        let mut steps: Vec<usize> =
            (plateau.first..=plateau.last).filter(|at| loss(at) <= LOSS_MAX).collect();
        if steps.is_empty() {
            steps.push(plateau.last);
        }
        let count = steps.len() as f64;
        let after = plateau.last + 1;
        let kept = match after < self.means.len() {
            true => 1.0,
            false => 1.0 - steps.iter().map(loss).sum::<f64>() / count,
        };
        let rate = |sweep: &Vec<f64>| steps.iter().map(|at| sweep[*at]).sum::<f64>() / count;
        let rates: Vec<f64> = self.sweeps.iter().map(rate).collect();
        let knees: Vec<f64> = rates.iter().zip(self.cycles()).map(|(rate, s)| rate * s).collect();
        let numbers = |part: f64| {
            let reached = |(sweep, rate): (&Vec<f64>, &f64)| self.reached(sweep, part * rate);
            let numbers: Vec<f64> = self.sweeps.iter().zip(&rates).map(reached).collect();
            ShapeEstimate::of_sweeps(&numbers)
        };
        let (clients_95, most) = (numbers(PLATEAU)?, numbers(PLATEAU / kept)?);
        let knee = ShapeEstimate::of_sweeps(&knees).filter(|_| self.number(0) == 1);
        Some(Saturation {
            throughput: ShapeEstimate::of_sweeps(&rates)?.widened(kept),
            steps: steps.iter().map(|at| self.number(*at)).collect(),
            plateau_from: self.number(plateau.first),
            falls_from: (after < self.means.len()).then(|| self.number(after)),
            knee: knee.map(|knee| knee.widened(kept)),
            clients_95: ShapeEstimate {
                interval: clients_95.interval.map(|[low, _]| [low, most.high()]),
                ..clients_95
            },
        })
    }

    /// The number of clients at which a sweep first reaches a throughput, by linear interpolation.
    fn reached(&self, sweep: &[f64], target: f64) -> f64 {
        match sweep.iter().position(|rate| *rate >= target) {
            Some(0) => self.clients[0],
            None => self.clients[sweep.len() - 1],
            Some(at) => {
                let share = (target - sweep[at - 1]) / (sweep[at] - sweep[at - 1]);
                self.clients[at - 1] + share * (self.clients[at] - self.clients[at - 1])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bound;
    use super::*;

    const SERVICE_S: f64 = 0.167;
    const THINK_S: f64 = 1.0;

    /// A sweep for each factor, by which all its throughputs differ.
    fn curve(
        think_s: f64,
        clients: impl IntoIterator<Item = u32>,
        factors: &[f64],
        rate: impl Fn(u32) -> f64,
    ) -> ShapeCurve {
        let point = |clients| {
            let sweep = |factor: &f64| {
                let throughput = rate(clients) * factor;
                SweepPoint { throughput, response_s: f64::from(clients) / throughput - think_s }
            };
            ShapePoint { clients, sweeps: factors.iter().map(sweep).collect() }
        };
        ShapeCurve { think_s, points: clients.into_iter().map(point).collect() }
    }

    fn constant(clients: u32) -> f64 {
        bound(f64::from(clients), SERVICE_S, THINK_S, SERVICE_S)
    }

    fn random(clients: u32) -> f64 {
        mean_value_analysis(&[SERVICE_S], THINK_S, clients)
    }

    fn saturation(curve: &ShapeCurve) -> Saturation {
        match shape(curve) {
            Shape::Saturated(saturation) => saturation,
            Shape::NotSaturated { why, .. } => panic!("{why}"),
        }
    }

    fn reason(curve: &ShapeCurve) -> String {
        match shape(curve) {
            Shape::NotSaturated { why, .. } => why,
            Shape::Saturated(saturation) => panic!("{saturation:?}"),
        }
    }

    #[test]
    fn serial_link_is_saturated_at_its_knee() {
        // 167 ms per request on a serial link and 1 s of think time.
        let knee = (SERVICE_S + THINK_S) / SERVICE_S;
        let reached = (1..).find(|n| random(*n) >= 0.95 / SERVICE_S).map_or(0.0, f64::from);
        for rate in [constant, random] {
            let saturation = saturation(&curve(THINK_S, 1..=20, &[1.0; 3], rate));
            assert!((saturation.throughput.value * SERVICE_S - 1.0).abs() < 0.003);
            assert!((saturation.knee.expect("one client").value / knee - 1.0).abs() < 0.003);
            let clients = saturation.clients_95.value;
            assert!(clients >= 0.95 * knee && clients <= reached + 1.0, "{clients}");
            assert_eq!(saturation.falls_from, None);
        }
        let constant = saturation(&curve(THINK_S, 1..=20, &[1.0; 3], constant));
        assert!((constant.clients_95.value - 0.95 * knee).abs() < 0.01, "{constant:?}");
        assert_eq!(constant.plateau_from, 7);
    }

    #[test]
    fn interval_is_students_t_over_sweeps() {
        let sweeps = [-0.1_f64, 0.0, 0.1].map(f64::exp);
        let throughput = saturation(&curve(THINK_S, 1..=40, &sweeps, constant)).throughput;
        // 4.3027 (2 degrees of freedom) × 0.1 ÷ √3; random service loses nothing at 40 clients.
        let half = 4.302_652_729_911_275 * 0.1 / 3.0_f64.sqrt();
        let low = (throughput.low() * SERVICE_S).ln();
        let high = (throughput.high() * SERVICE_S).ln();
        assert!((throughput.value * SERVICE_S - 1.0).abs() < 1e-9, "{throughput:?}");
        assert!((low + half).abs() < 1e-9 && (high - half).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn possible_loss_of_random_service_is_in_the_interval() {
        // X = N ÷ (N + 1) ÷ D at two balanced stations: 5 % below the limit at 20 clients.
        let rate = |clients| mean_value_analysis(&[1.0, 1.0], 0.0, clients);
        let throughput = saturation(&curve(0.0, 1..=20, &[1.0; 3], rate)).throughput;
        assert!(throughput.value < 0.96 && throughput.high() > 0.98, "{throughput:?}");
    }

    #[test]
    fn curve_below_the_knee_is_not_saturated() {
        let growing = curve(THINK_S, [1, 2, 4], &[1.0; 3], constant);
        assert_eq!(reason(&growing), "throughput grew by 100 % from 2 to 4 clients");
        let short = curve(THINK_S, 1..=8, &[1.0; 3], constant);
        assert_eq!(reason(&short), "level from 7 to 8 clients only: below a factor 1.5");
        let longer = curve(THINK_S, 1..=10, &[1.0; 3], constant);
        assert_eq!(reason(&longer), "level from 7 to 10 clients only: below a factor 1.5");
        // Responses of 2 s that the throughput does not explain.
        let mut early = curve(THINK_S, [4, 6], &[1.0; 3], |_| 2.0);
        let slow = early.points[0].sweeps.iter_mut();
        slow.for_each(|sweep| sweep.response_s = 2.0);
        assert_eq!(reason(&early), "6 clients are below 1.3 times the knee, 6.0");
    }

    #[test]
    fn noise_that_hides_growth_is_not_saturated() {
        let mut noisy = curve(THINK_S, [1, 2, 4, 8, 16], &[1.0; 3], constant);
        for (at, point) in noisy.points.iter_mut().enumerate() {
            for (sweep, value) in point.sweeps.iter_mut().enumerate() {
                value.throughput *= 1.0 + 0.3 * ((at * 7 + sweep * 4) as f64).sin();
            }
        }
        assert!(reason(&noisy).ends_with("is not excluded"), "{}", reason(&noisy));
    }

    #[test]
    fn throughput_beyond_a_fall_does_not_count() {
        let rate = |clients| constant(clients) * if clients > 12 { 0.8 } else { 1.0 };
        let saturation = saturation(&curve(THINK_S, 1..=20, &[0.99, 1.0, 1.01], rate));
        assert_eq!((saturation.plateau_from, saturation.falls_from), (7, Some(13)));
        assert!((saturation.throughput.value * SERVICE_S - 1.0).abs() < 1e-3);
        assert!(saturation.steps.iter().all(|clients| (7..=12).contains(clients)));
    }

    #[test]
    fn one_sweep_has_no_interval() {
        let saturation = saturation(&curve(THINK_S, 1..=20, &[1.0], constant));
        let knee = saturation.knee.expect("one client");
        let estimates = [saturation.throughput, knee, saturation.clients_95];
        assert!(estimates.iter().all(|estimate| estimate.interval.is_none()));
    }

    #[test]
    fn incomplete_sweep_does_not_count() {
        let mut stopped = curve(THINK_S, 1..=20, &[1.0, 1.1, 3.0], constant);
        stopped.points[19].sweeps.pop();
        let two = curve(THINK_S, 1..=20, &[1.0, 1.1], constant);
        assert_eq!(shape(&stopped), shape(&two));
    }

    #[test]
    fn curve_without_one_client_has_no_knee() {
        assert_eq!(saturation(&curve(THINK_S, 2..=20, &[1.0; 3], constant)).knee, None);
    }

    #[test]
    fn too_few_steps_are_not_saturated() {
        let none = Shape::NotSaturated { up_to: 0, why: NO_STEPS.to_owned() };
        assert_eq!(shape(&ShapeCurve { think_s: 0.0, points: Vec::new() }), none);
        assert_eq!(reason(&curve(THINK_S, [4], &[1.0; 3], constant)), NO_STEPS);
        assert_eq!(reason(&curve(THINK_S, 1..=20, &[], constant)), NO_STEPS);
        assert_eq!(reason(&curve(THINK_S, 1..=20, &[1.0], |_| 0.0)), NO_STEPS);
        let mut unknown = curve(THINK_S, 1..=20, &[1.0; 3], constant);
        unknown.points[0].sweeps[1].response_s = f64::NAN;
        assert_eq!(reason(&unknown), NO_STEPS);
    }
}

//! Arrivals at a rate: when requests are due, whatever the responses.

use clap::ValueEnum;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

use super::pause::uniform;

/// The process of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arrivals {
    /// Independent of each other: exponential times between two.
    Poisson,
    /// Equal times between two.
    Uniform,
}

fathom_record::words!(Arrivals.word, Poisson = "poisson", Uniform = "uniform");

/// Requests a second, and how they arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduleRate {
    pub per_second: f64,
    pub arrivals: Arrivals,
}

/// The arrivals of one of several threads, ascending and without an end. Those of all threads
/// together are the schedule: of uniform arrivals every n-th one, of a Poisson process an
/// independent one of the n-th part of the rate.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    begun_ns: u64,
    /// The next arrival, in nanoseconds since the beginning.
    next_ns: f64,
    rest: Rest,
}

#[derive(Clone, Debug)]
enum Rest {
    Poisson { mean_ns: f64, random: Xoshiro256PlusPlus },
    Uniform { number: u64, threads: u64, apart_ns: f64 },
}

impl Schedule {
    pub(super) fn new(
        rate: ScheduleRate,
        begun_ns: u64,
        (thread, threads): (u32, u32),
        seed: u64,
    ) -> Self {
        let apart_ns = 1e9 / rate.per_second;
        let rest = match rate.arrivals {
            Arrivals::Poisson => {
                let seed = seed ^ u64::from(thread + 1).wrapping_mul(0xd134_2543_de82_ef95);
                let random = Xoshiro256PlusPlus::seed_from_u64(seed);
                Rest::Poisson { mean_ns: apart_ns * f64::from(threads), random }
            }
            Arrivals::Uniform => {
                Rest::Uniform { number: thread.into(), threads: threads.into(), apart_ns }
            }
        };
        let mut schedule = Self { begun_ns, next_ns: 0.0, rest };
        schedule.set_next();
        schedule
    }

    /// When the next request is due.
    pub(super) fn next_ns(&self) -> u64 {
        self.begun_ns.saturating_add(self.next_ns as u64)
    }

    /// Takes the next arrival.
    pub(super) fn take(&mut self) -> u64 {
        let due_ns = self.next_ns();
        self.set_next();
        due_ns
    }

    fn set_next(&mut self) {
        match &mut self.rest {
            // By inversion; 1 − u is never 0.
            Rest::Poisson { mean_ns, random } => {
                self.next_ns += -(1.0 - uniform(random)).ln() * *mean_ns;
            }
            // By its number: a sum of rounded times would drift.
            Rest::Uniform { number, threads, apart_ns } => {
                self.next_ns = *number as f64 * *apart_ns;
                *number += *threads;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// The arrivals of all threads in these nanoseconds.
    fn union(rate: ScheduleRate, threads: u32, until_ns: u64) -> Vec<u64> {
        let of_thread = |thread| {
            let mut schedule = Schedule::new(rate, 500, (thread, threads), 1);
            std::iter::from_fn(move || Some(schedule.take())).take_while(|at| *at < 500 + until_ns)
        };
        let mut all: Vec<u64> =
            (0..threads).flat_map(|thread| of_thread(thread).collect::<Vec<u64>>()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn uniform_arrivals_are_exactly_as_many() {
        let rate = ScheduleRate { per_second: 1_000.0, arrivals: Arrivals::Uniform };
        let one = union(rate, 1, 3 * SECOND_NS);
        assert_eq!(one.len(), 3_000);
        assert_eq!((one[0], one[2_999]), (500, 500 + 2_999_000_000));
        for threads in [2, 3, 7] {
            assert_eq!(union(rate, threads, 3 * SECOND_NS), one, "of {threads} threads");
        }
        // Thirds of a millisecond do not add up to a drift.
        let thirds = ScheduleRate { per_second: 3_000.0, ..rate };
        let last = union(thirds, 2, 360 * SECOND_NS).pop();
        assert_eq!(last, Some(500 + 360 * SECOND_NS - 333_334));
    }

    #[test]
    fn poisson_arrivals_have_their_rate_and_no_memory() {
        let rate = ScheduleRate { per_second: 1_000.0, arrivals: Arrivals::Poisson };
        for threads in [1, 2, 5] {
            let all = union(rate, threads, 100 * SECOND_NS);
            let within = |n: usize, mean: f64| (n as f64 - mean).abs() < 4.0 * mean.sqrt();
            assert!(within(all.len(), 100_000.0), "{} of {threads} threads", all.len());
            let apart = all.windows(2).map(|two| two[1] - two[0]);
            let long = apart.filter(|ns| *ns > 1_000_000).count();
            // 1 ÷ e of all.
            assert!(within(long, all.len() as f64 / std::f64::consts::E), "{long}");
            // Counts of tenths of a second: their variance is their mean.
            let mut counts = [0_u32; 1_000];
            all.iter().for_each(|at| counts[((at - 500) / 100_000_000) as usize] += 1);
            let squares = counts.iter().map(|n| (f64::from(*n) - 100.0).powi(2));
            let variance = squares.sum::<f64>() / 1_000.0;
            assert!((85.0..115.0).contains(&variance), "{variance} of {threads} threads");
            assert_eq!(all, union(rate, threads, 100 * SECOND_NS), "seeded");
        }
    }
}

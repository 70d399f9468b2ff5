//! Operational laws, and exact mean-value analysis.

/// The smallest deviation from Little's law that is an error (METHOD, pitfalls of a load).
const LITTLE_MAX: f64 = 0.02;

/// The upper bound of the throughput: min(N ÷ (D + Z), 1 ÷ Dmax) (Lazowska, chapter 5).
#[must_use]
pub fn bound(clients: f64, demand_s: f64, think_s: f64, longest_demand_s: f64) -> f64 {
    (clients / (demand_s + think_s)).min(1.0 / longest_demand_s)
}

/// The throughput of N clients at queueing stations with these demands and a think time, by exact
/// mean-value analysis of a single class (Lazowska, algorithm 6.2): service times are random, with
/// an exponential distribution. With constant service times the throughput is between this and
/// [`bound`].
#[must_use]
pub fn mean_value_analysis(demands_s: &[f64], think_s: f64, clients: u32) -> f64 {
    let mut queues = vec![0.0; demands_s.len()];
    let mut throughput = 0.0;
    for n in 1..=clients {
        // An arriving request finds the queues of n − 1 clients. They become response times.
        for (queue, demand) in queues.iter_mut().zip(demands_s) {
            *queue = demand * (1.0 + *queue);
        }
        throughput = f64::from(n) / (think_s + queues.iter().sum::<f64>());
        queues.iter_mut().for_each(|response| *response *= throughput);
    }
    throughput
}

/// The share of requests at a station with constant service, random arrivals and this utilisation
/// (below 1) that wait longer than so many times of service (M/D/1: Erlang, 1909).
#[must_use]
pub fn constant_service_waits_beyond(utilisation: f64, services: f64) -> f64 {
    let (mut within, mut k) = (0.0, 0.0);
    while k <= services {
        let at = utilisation * (k - services);
        let factorial: f64 = (1..=k as u32).map(f64::from).product();
        within += at.powi(k as i32) / factorial * (-at).exp();
        k += 1.0;
    }
    1.0 - (1.0 - utilisation) * within
}

/// Little's law for a step: N = X · (R + Z).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Little {
    /// X · (R + Z) ÷ N − 1. Negative if responses are missing, such as those that ended outside
    /// the window.
    pub deviation: f64,
    /// The larger of 2 % and R ÷ window: a window cuts up to one response of each client.
    pub allowed: f64,
}

impl Little {
    #[must_use]
    pub fn is_within(self) -> bool {
        self.deviation.abs() <= self.allowed
    }
}

#[must_use]
pub fn little(
    clients: u32,
    throughput: f64,
    response_s: f64,
    think_s: f64,
    window_s: f64,
) -> Little {
    let present = throughput * (response_s + think_s);
    Little {
        deviation: present / f64::from(clients) - 1.0,
        allowed: LITTLE_MAX.max(response_s / window_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_stations_agree_with_hand_calculation() {
        // Two stations of 1 s and no think time. n = 1: R = 1 + 1, X = 1/2, queues of 1/2.
        // n = 2: R = 1.5 + 1.5, X = 2/3, queues of 1. n = 3: R = 2 + 2, X = 3/4. In general
        // X = N ÷ (N + M − 1) ÷ D for M balanced stations (Lazowska, section 5.4).
        for clients in 1..=50 {
            let n = f64::from(clients);
            let throughput = mean_value_analysis(&[1.0, 1.0], 0.0, clients);
            assert!((throughput - n / (n + 1.0)).abs() < 1e-12, "{clients}: {throughput}");
        }
        assert_eq!(mean_value_analysis(&[1.0, 1.0], 0.0, 0), 0.0);
    }

    #[test]
    fn unequal_stations_agree_with_hand_calculation() {
        // Demands of 2 s and 1 s, think time 3 s.
        // n = 1: R = 2 + 1, X = 1/6, queues of 1/3 and 1/6.
        // n = 2: R = 2 · 4/3 + 7/6 = 23/6, X = 2 ÷ (3 + 23/6) = 12/41, queues of 32/41 and 14/41.
        // n = 3: R = 2 · 73/41 + 55/41 = 201/41, X = 3 ÷ (3 + 201/41) = 123/324.
        let throughput = |clients| mean_value_analysis(&[2.0, 1.0], 3.0, clients);
        for (clients, expected) in [(1, 1.0 / 6.0), (2, 12.0 / 41.0), (3, 123.0 / 324.0)] {
            assert!((throughput(clients) - expected).abs() < 1e-12, "{clients}");
        }
    }

    #[test]
    fn one_station_agrees_with_erlang_loss_formula() {
        // The machine repairman: X = (1 − B(N, Z ÷ D)) ÷ D. B(4, 2) = 2/21.
        let throughput = mean_value_analysis(&[0.5], 1.0, 4);
        assert!((throughput - 2.0 * (1.0 - 2.0 / 21.0)).abs() < 1e-12, "{throughput}");
    }

    #[test]
    fn waits_for_constant_service_have_the_mean_of_pollaczek_and_khinchine() {
        for load in [0.1, 0.5, 0.8, 0.9] {
            let beyond = |services| constant_service_waits_beyond(load, services);
            assert!((beyond(0.0) - load).abs() < 1e-12, "who waits at all: {}", beyond(0.0));
            // The mean of a positive number is the integral of the share beyond.
            let step = 1e-3;
            let mean: f64 = (0..18_000).map(|at| step * beyond(step * (at as f64 + 0.5))).sum();
            let rest = beyond(18.0) * 18.0;
            let expected = load / 2.0 / (1.0 - load);
            assert!((mean - expected).abs() < 2e-3 * expected + rest, "{load}: {mean}");
        }
    }

    #[test]
    fn bound_is_the_smaller_of_both_limits() {
        // 167 ms at the bottleneck and 1 s of think time: 7 clients at most saturate it.
        let bound = |clients| bound(clients, 0.167, 1.0, 0.167);
        assert!((bound(1.0) - 1.0 / 1.167).abs() < 1e-12);
        assert!((bound(6.0) - 6.0 / 1.167).abs() < 1e-12);
        assert!((bound(7.0) - 1.0 / 0.167).abs() < 1e-12);
        for clients in 1..30 {
            assert!(mean_value_analysis(&[0.167], 1.0, clients) <= bound(f64::from(clients)));
        }
    }

    #[test]
    fn missing_responses_violate_littles_law() {
        // 4 clients, 0.5 s of response and 1.5 s of think time: 2 requests a second.
        let law = little(4, 2.0, 0.5, 1.5, 100.0);
        assert_eq!((law.deviation, law.allowed, law.is_within()), (0.0, 0.02, true));
        let missing = little(4, 1.9, 0.5, 1.5, 100.0);
        assert!((missing.deviation + 0.05).abs() < 1e-12 && !missing.is_within());
        assert!(little(4, 1.9, 0.5, 1.5, 5.0).is_within(), "a window of ten responses");
        assert!(!little(4, 2.2, 0.5, 1.5, 100.0).is_within(), "too much is wrong as well");
    }
}

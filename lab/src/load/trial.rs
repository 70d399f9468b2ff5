//! The trials: limits, files, and options of the load.

use fathom_lab::limited::{ImposedLimit, LimitedFiles, LimitedServer};
use fathom_lab::seeded::Seeded;

/// The part of trials with a random limit.
pub(super) const RANDOM: &str = "random";
/// Files that stay in memory.
const SMALL: LimitedFiles = LimitedFiles { count: 64, bytes: 4 << 10, are_cold: false };
const MIDDLE: LimitedFiles = LimitedFiles { count: 64, bytes: 64 << 10, are_cold: false };
/// Many, so that clients seldom share a file while it is in memory.
const COLD: LimitedFiles = LimitedFiles { count: 600, bytes: 400_000, are_cold: true };
const LARGE: LimitedFiles = LimitedFiles { count: 40, bytes: 2_000_000, are_cold: false };
const WAKE_UP_S: f64 = 150e-6;
/// Of a step; a proof takes six times as long again.
const TIME_S: [f64; 2] = [3.0, 6.0];

/// What must be found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TrialExpected {
    /// The limit, and its throughput within a share.
    Limit(f64),
    /// Any name but the limit's.
    Another,
    /// No saturation, and no name.
    Nothing,
    /// The throughput and the number of clients for 95 %, without a proof.
    Knee(f64),
}

#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) part: &'static str,
    pub(super) server: LimitedServer,
    pub(super) limit: ImposedLimit,
    pub(super) files: LimitedFiles,
    pub(super) think_s: f64,
    pub(super) options: String,
    pub(super) expected: TrialExpected,
}

/// The tolerance of a serial section, in which the wake-up is included.
fn of_section(seconds: f64) -> f64 {
    0.05 + WAKE_UP_S / seconds
}

fn trial(
    limit: ImposedLimit,
    files: LimitedFiles,
    options: &str,
    expected: TrialExpected,
) -> Trial {
    let options = options.to_owned();
    let (part, server) = (limit.name(), LimitedServer::Fathom);
    Trial { part, server, limit, files, think_s: 0.0, options, expected }
}

pub(super) fn fixed() -> Vec<Trial> {
    let short = LimitedFiles { bytes: 200_000, ..LARGE };
    let usual = "--clients 1,2,4,8 --time 3s";
    let proved = "--clients 1,2,4,8 --time 3s --prove";
    // On one machine only a proof names the network.
    let of_link = |mbit: f64, files, time: &str| {
        let options = &format!("--clients 1,2,4,8 --time {time} --prove");
        trial(ImposedLimit::Network(mbit * 1e6), files, options, TrialExpected::Limit(0.02))
    };
    let of_disk = |megabytes: f64| {
        let options = "--clients 1,2,4,8 --time 6s --server-cache cold";
        trial(ImposedLimit::Disk(megabytes * 1e6), COLD, options, TrialExpected::Limit(0.05))
    };
    let of_server = |share: f64, files, options: &str| {
        trial(ImposedLimit::ServerCpu(share), files, options, TrialExpected::Limit(0.15))
    };
    let of_section = |ms: f64, options| {
        let expected = TrialExpected::Limit(of_section(ms / 1e3));
        trial(ImposedLimit::Serial(ms / 1e3), MIDDLE, options, expected)
    };
    // Requests that arrive together cost less CPU time each, and a quota stops the server at times.
    let of_cpu = "--clients 2,4,8,16,32 --time 6s";
    let knee = |distribution: &str| {
        let clients = "--clients 1,2,4,6,8,10,12,16,20 --time 21s --think 1s";
        let options = format!("{clients} --think-distribution {distribution}");
        let expected = TrialExpected::Knee(0.02);
        Trial {
            part: "think",
            think_s: 1.0,
            ..trial(ImposedLimit::Network(1e8), LARGE, &options, expected)
        }
    };
    let fixed = "--clients 1,2,4,8 --time 3s --mode fixed";
    let warm = LimitedFiles { are_cold: false, ..COLD };
    vec![
        of_link(10.0, short, "12s"),
        of_link(100.0, LARGE, "12s"),
        of_link(1000.0, LARGE, "6s"),
        of_disk(20.0),
        of_disk(80.0),
        trial(ImposedLimit::Disk(20e6), warm, fixed, TrialExpected::Another),
        of_server(0.15, SMALL, of_cpu),
        of_server(0.3, MIDDLE, &format!("{of_cpu} --prove")),
        of_server(0.9, SMALL, of_cpu),
        trial(ImposedLimit::Client(0.3), SMALL, usual, TrialExpected::Limit(1.0)),
        of_section(1.0, usual),
        of_section(5.0, proved),
        of_section(20.0, usual),
        knee("constant"),
        knee("exponential"),
    ]
}

impl Trial {
    /// The same limit on nginx, if it is possible there and its answer is a name: only the server's
    /// processes are seen, and nothing is proved.
    pub(super) fn on_nginx(&self) -> Option<Self> {
        let has_name = !matches!(self.expected, TrialExpected::Knee(_));
        if matches!(self.limit, ImposedLimit::Serial(_)) || !has_name {
            return None;
        }
        let mut options = self.options.replace(" --prove", "");
        options = options.replace(" --server-cache cold", "");
        options += &format!(" --pid auto --urls /f{{0..{}}}", self.files.count - 1);
        Some(Self { server: LimitedServer::Nginx, options, ..self.clone() })
    }

    /// Limits in turn; one of five sweeps ends below the knee.
    pub(super) fn random(number: u32, random: &mut Seeded) -> Self {
        let between = |low: f64, high: f64, share: f64| low * (high / low).powf(share);
        let (kind, turn) = (number % 5, number / 5 % 4);
        let is_below = kind == turn;
        let share = random.share();
        let files = if random.coin() { SMALL } else { MIDDLE };
        let (limit, files, tolerance) = match kind {
            0 => {
                let large = LimitedFiles { bytes: 200_000, ..LARGE };
                (ImposedLimit::Network(between(50e6, 500e6, share)), large, 0.02)
            }
            1 => (ImposedLimit::Disk(between(20e6, 80e6, share)), COLD, 0.05),
            2 => (ImposedLimit::ServerCpu(between(0.15, 0.9, share)), files, 0.15),
            3 => {
                let seconds = between(1e-3, 20e-3, share);
                (ImposedLimit::Serial(seconds), files, of_section(seconds))
            }
            _ => (ImposedLimit::Client(between(0.1, 0.5, share)), files, 1.0),
        };
        // Of a CPU, the time per request is short and not known in advance.
        let request_s = limit.throughput(files.bytes).map_or(1e-3, |rate| 1.0 / rate);
        let is_cpu = matches!(limit, ImposedLimit::ServerCpu(_) | ImposedLimit::Client(_));
        let knee = match (is_below, is_cpu) {
            (true, _) => 12.0 + 12.0 * random.share(),
            (false, true) => 1.0,
            (false, false) if random.coin() => 1.0,
            (false, false) => 2.0 + 4.0 * random.share(),
        };
        let clients = match (is_below, knee > 1.0) {
            (true, _) => "1,2,3,4,6",
            (false, true) => "1,2,4,8,16",
            (false, false) => "1,2,4,8",
        };
        let think_ms = ((knee - 1.0) * request_s * 1e3).round();
        let shortest_s = if files.are_cold { 2.0 * TIME_S[0] } else { TIME_S[0] };
        let time_s = (300.0 * request_s).clamp(shortest_s, TIME_S[1]);
        let distribution = if random.coin() { "constant" } else { "exponential" };
        let mut options = format!("--clients {clients} --time {time_s:.1}s --seed {number}");
        if think_ms > 0.0 {
            options += &format!(" --think {think_ms}ms --think-distribution {distribution}");
        }
        options += match limit {
            ImposedLimit::Disk(_) => " --server-cache cold",
            ImposedLimit::Network(_) => " --prove",
            _ => "",
        };
        let expected =
            if is_below { TrialExpected::Nothing } else { TrialExpected::Limit(tolerance) };
        Self { part: RANDOM, think_s: think_ms / 1e3, ..trial(limit, files, &options, expected) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sweep_in_five_ends_below_the_knee() {
        let mut random = Seeded(1);
        let trials: Vec<Trial> = (0..20).map(|number| Trial::random(number, &mut random)).collect();
        let below: Vec<&Trial> =
            trials.iter().filter(|trial| trial.expected == TrialExpected::Nothing).collect();
        assert_eq!(below.len(), 4);
        for trial in below {
            let rate = trial.limit.throughput(trial.files.bytes).unwrap_or(1e3);
            assert!(1.0 + trial.think_s * rate > 1.5 * 6.0, "{trial:?}");
        }
        let names = ["network", "disk", "server-cpu", "serial", "client"];
        for name in names {
            assert_eq!(trials.iter().filter(|trial| trial.limit.name() == name).count(), 4);
        }
    }
}

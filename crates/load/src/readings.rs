//! What both ends use over time, on the time axis of the client: readings about once a second.
//!
//! A reading of the server is placed at the time when its answer arrived, late by at most a round
//! trip; its rates are by its own clock.

use fathom_measure::clock::process_cpu_ns;
use fathom_measure::disturbance::throttled_ns;
use fathom_record::{Series, Unit};

use crate::figures::LoadTelemetry;

/// Readings of a case that are kept.
const READINGS_MAX: usize = 4_000;
/// Closer readings, such as those where a window begins, give no rate.
const STEP_MIN_NS: u64 = 200_000_000;

#[derive(Debug)]
struct Reading {
    at_ns: u64,
    cpu_ns: u64,
    throttled_ns: Option<u64>,
    server: Option<LoadTelemetry>,
}

#[derive(Debug, Default)]
pub struct Readings(Vec<Reading>);

impl Readings {
    pub fn add(&mut self, at_ns: u64, server: Option<&LoadTelemetry>) {
        let is_due = self.0.last().is_none_or(|last| at_ns >= last.at_ns + STEP_MIN_NS);
        if is_due && self.0.len() < READINGS_MAX {
            let (cpu_ns, throttled_ns) = (process_cpu_ns(), throttled_ns());
            // Threads are many, and have no series.
            let server = server.map(|it| LoadTelemetry { tree: None, ..it.clone() });
            self.0.push(Reading { at_ns, cpu_ns, throttled_ns, server });
        }
    }

    /// The series of both ends. `at`: the name of the server's host, if it is another one.
    pub fn series(&self, at: Option<&str>) -> Vec<Series> {
        type OfClient = fn(&Reading) -> Option<u64>;
        type OfServer = fn(&LoadTelemetry) -> Option<u64>;
        let client: [(&str, OfClient); 2] =
            [("client CPU", |it| Some(it.cpu_ns)), ("client throttled", |it| it.throttled_ns)];
        // Nanoseconds per nanosecond are CPUs.
        let server: [(&str, Unit, f64, OfServer); 6] = [
            ("server CPU", Unit::Ratio, 1.0, |it| Some(it.cpu_ns)),
            ("server waiting for a CPU", Unit::Ratio, 1.0, |it| Some(it.run_queue_wait_ns)),
            ("server throttled", Unit::Ratio, 1.0, |it| it.throttled_ns),
            ("disk", Unit::BytesPerSecond, 1e9, |it| it.read_bytes),
            ("wire", Unit::BytesPerSecond, 1e9, |it| it.bytes_on_wire),
            ("retransmits", Unit::PerSecond, 1e9, |it| it.tcp_retransmits),
        ];
        let client = client.into_iter().filter_map(|(name, of)| {
            let points = self.rates(|it| Some((it.at_ns, of(it)?)));
            series(name, Unit::Ratio, None, points)
        });
        let server = server.into_iter().filter_map(|(name, unit, scale, of)| {
            let points = self.rates(|it| {
                let read = it.server.as_ref()?;
                Some((read.at_ns, of(read)?))
            });
            let scaled = points.into_iter().map(|(time, rate)| (time, scale * rate)).collect();
            series(name, unit, at, scaled)
        });
        client.chain(server).collect()
    }

    /// The growth of a count between two readings, by the clock beside it, at the later reading.
    fn rates(&self, of: impl Fn(&Reading) -> Option<(u64, u64)>) -> Vec<(f64, f64)> {
        let rate = |pair: &[Reading]| {
            let ((from_ns, before), (to_ns, after)) = (of(&pair[0])?, of(&pair[1])?);
            let elapsed_ns = to_ns.checked_sub(from_ns).filter(|ns| *ns > 0)?;
            let more = after.checked_sub(before)?;
            Some((pair[1].at_ns as f64, more as f64 / elapsed_ns as f64))
        };
        self.0.windows(2).filter_map(rate).collect()
    }
}

/// `None` if there is nothing to see.
fn series(name: &str, unit: Unit, at: Option<&str>, points: Vec<(f64, f64)>) -> Option<Series> {
    let (times_ns, values): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
    let at = at.map(str::to_owned);
    let has_any = values.iter().any(|value| *value > 0.0);
    has_any.then(|| Series { name: name.to_owned(), unit, at, times_ns, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_by_the_clock_of_their_end() {
        let server = |at_ns, bytes| {
            let bytes_on_wire = Some(bytes);
            Some(LoadTelemetry { at_ns, bytes_on_wire, ..LoadTelemetry::default() })
        };
        let reading = |at_ns, cpu_ns, server| Reading { at_ns, cpu_ns, throttled_ns: None, server };
        let readings = Readings(vec![
            reading(1_000_000_000, 0, server(77, 0)),
            reading(2_000_000_000, 250_000_000, server(2_000_000_077, 5_000)),
            reading(3_000_000_000, 500_000_000, None),
            // A clock that stands has no rate.
            reading(4_000_000_000, 750_000_000, server(3_000_000_000, 6_000)),
            reading(5_000_000_000, 1_000_000_000, server(3_000_000_000, 7_000)),
        ]);
        let all = readings.series(Some("far"));
        let names: Vec<_> = all.iter().map(|it| (it.name.as_str(), it.at.as_deref())).collect();
        assert_eq!(names, [("client CPU", None), ("wire", Some("far"))], "and no series of zeros");
        assert_eq!(all[0].values, [0.25; 4]);
        assert_eq!((&all[1].times_ns[..], &all[1].values[..]), (&[2e9][..], &[2_500.0][..]));
    }
}

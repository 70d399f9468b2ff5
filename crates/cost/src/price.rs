//! Prices from results of this host.

use fathom_record::{CostPrice, CostTime, ParamValue, Record, Unit};

use super::copies::BLOCK;
use super::count::{Operation, Place};
use super::table::{Part, Point, Row, USER_SIDE};

/// Half the interval of a number without one.
const NO_INTERVAL: f64 = 0.2;

pub(super) struct Prices<'r> {
    pub(super) known: &'r [Record],
    /// What copying a byte from the files of the run takes, in blocks.
    pub(super) file_byte_ns: Option<f64>,
}

impl Prices<'_> {
    /// The price of one operation of this size; `factor`: times that of a loop.
    ///
    /// # Errors
    /// The results that are missing.
    pub(super) fn price(
        &self,
        row: &Row,
        size: f64,
        factor: f64,
    ) -> Result<CostPrice, Vec<String>> {
        let mut price = match self.file_byte_ns {
            Some(byte_ns) if row.operation == Operation::Read(Place::File) => {
                self.of_file(row.points, size, byte_ns)?
            }
            _ => self.interpolated(row.points_at(size), size)?,
        };
        price.time = row.in_program(self.in_kernel(row, price.time), factor);
        Ok(price)
    }

    /// What of the time of a call is system time.
    pub(super) fn in_kernel(&self, row: &Row, time: CostTime) -> CostTime {
        let outside = self.part(USER_SIDE).filter(|_| row.is_call()).map_or(0.0, |time| time.ns);
        let [ns, low, high] =
            [time.ns, time.low_ns, time.high_ns].map(|it| (it - outside).max(0.0));
        CostTime::new(ns, low, high)
    }

    /// That of the first byte, and of copying the others.
    fn of_file(&self, points: &[Point], size: f64, byte_ns: f64) -> Result<CostPrice, Vec<String>> {
        let mut first = self.sum(points[0].parts)?;
        let copied = size * (byte_ns - first.time.ns / BLOCK as f64).max(0.0);
        let CostTime { ns, low_ns, high_ns } = first.time;
        first.time = CostTime::new(ns + copied, low_ns + copied, high_ns + copied);
        first.from.push("the files themselves".to_owned());
        Ok(first)
    }

    /// Between two points on a line; from the last one on as the last two, or in proportion. Points
    /// without a result are left out, where two others are known.
    fn interpolated(&self, points: &[Point], size: f64) -> Result<CostPrice, Vec<String>> {
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        for point in points {
            match self.sum(point.parts) {
                Ok(price) => known.push((point.size, price)),
                Err(lacks) => missing.extend(lacks),
            }
        }
        if known.len() < points.len().min(2) {
            missing.dedup();
            return Err(missing);
        }
        let at = known.iter().position(|(point, _)| size <= *point).unwrap_or(known.len() - 1);
        let (to, b) = &known[at];
        let Some((from, a)) = at.checked_sub(1).map(|before| &known[before]) else {
            return Ok(b.clone());
        };
        let share = (size - from) / (to - from);
        let between =
            |of: fn(CostTime) -> f64| (of(a.time) + share * (of(b.time) - of(a.time))).max(0.0);
        let ends = [between(|it| it.low_ns), between(|it| it.high_ns)];
        let time = CostTime::new(between(|it| it.ns), ends[0].min(ends[1]), ends[0].max(ends[1]));
        let mut names = a.from.clone();
        names.extend(b.from.iter().filter(|name| !a.from.contains(name)).cloned());
        Ok(CostPrice { time, from: names })
    }

    /// # Errors
    /// The results that are missing.
    pub(super) fn sum(&self, parts: &[Part]) -> Result<CostPrice, Vec<String>> {
        let found: Vec<Option<CostTime>> = parts.iter().map(|part| self.part(*part)).collect();
        let lacks = parts.iter().zip(&found).filter(|(_, time)| time.is_none());
        let missing: Vec<String> = lacks.map(|(part, _)| part.result().to_owned()).collect();
        if !missing.is_empty() {
            return Err(missing);
        }
        let sum = CostTime::sum(found.into_iter().flatten());
        // Of a difference that is all noise: nothing of it is known but that it is no gain.
        let time = CostTime::new(sum.ns.max(0.0), sum.low_ns.max(0.0), sum.high_ns.max(0.0));
        Ok(CostPrice { time, from: parts.iter().map(|part| part.result().to_owned()).collect() })
    }

    fn part(&self, part: Part) -> Option<CostTime> {
        let record = self.known.iter().rev().find(|record| is(record, part.result()))?;
        let summary = record.shown_summary().filter(|summary| summary.bound.is_none())?;
        let value = summary.median;
        let half = NO_INTERVAL * value.abs();
        let [low, high] = summary.limits().unwrap_or([value - half, value + half]);
        match part {
            Part::Time(times, _) if record.unit == Unit::Nanoseconds => {
                let ends = [times * low, times * high];
                Some(CostTime::new(times * value, ends[0].min(ends[1]), ends[0].max(ends[1])))
            }
            Part::Cpu(times, _) if record.unit == Unit::Nanoseconds => {
                let used = &record.disturbance;
                let share = (used.cpu_ns as f64 / used.wall_ns.max(1) as f64).min(1.0);
                let of = CostTime::new(value, low, high);
                Some(of.times(times * share))
            }
            Part::Rate(bytes, _) if record.unit == Unit::BytesPerSecond && low > 0.0 => {
                let ns = |rate: f64| bytes / rate * 1e9;
                Some(CostTime::new(ns(value), ns(high), ns(low)))
            }
            _ => None,
        }
    }
}

/// Whether a record is of this metric with at least these parameters, and has a number.
fn is(record: &Record, result: &str) -> bool {
    let (metric, params) = result.split_once('{').unwrap_or((result, ""));
    let mut wanted = params.trim_end_matches('}').split(',').filter_map(|it| it.split_once('='));
    let has = |(name, value): (&str, &str)| match record.params.0.get(name) {
        Some(ParamValue::Text(text)) => text == value,
        Some(ParamValue::Integer(number)) => value.parse() == Ok(*number),
        None => false,
    };
    record.metric.as_str() == metric && record.verdict.shows_number() && wanted.all(has)
}

#[cfg(test)]
mod tests {
    use fathom_record::{Cause, Params, State, Verdict};

    use super::*;
    use crate::count::{FaultKind, Operation, Place};
    use crate::table::{TABLE, row};

    fn time(metric: &str, params: &Params, ns: f64) -> Record {
        Record::fixture(metric, Unit::Nanoseconds).of_case(params).within(ns, 0.1 * ns)
    }

    fn reads() -> Vec<Record> {
        let block = |bytes: i64, rate: f64| {
            let params = Params::one("block", bytes).and("state", "warm").and("threads", 1);
            let params = params.and("way", "read").and("file_bytes", 1 << 26);
            let record = Record::fixture("file.read.throughput", Unit::BytesPerSecond);
            record.of_case(&params).within(rate, 0.0)
        };
        // 1024 ns for 4 KiB, 16384 ns for 64 KiB.
        vec![
            time("file.call", &Params::one("call", "read1"), 200.0),
            block(4096, 4e9),
            block(65_536, 4e9),
            block(1 << 20, 4e9),
        ]
    }

    fn price(
        records: &[Record],
        operation: Operation,
        size: f64,
    ) -> Result<CostPrice, Vec<String>> {
        Prices { known: records, file_byte_ns: None }.price(
            row(operation).expect("a row"),
            size,
            1.0,
        )
    }

    #[test]
    fn price_between_sizes_is_on_a_line() {
        let records = reads();
        let ns = |size| price(&records, Operation::Read(Place::File), size).unwrap().time.ns;
        let whole = |size| ns(size).round();
        assert_eq!(
            (whole(0.0), whole(1.0), whole(4096.0), whole(65_536.0)),
            (200.0, 200.0, 1024.0, 16384.0)
        );
        assert_eq!(whole(2048.5), 612.0);
        assert_eq!(whole(2_097_152.0), 524_288.0, "beyond the last point as the last two");
        let one = price(&records, Operation::Read(Place::File), 1.0).unwrap();
        assert_eq!(one.from, ["file.call{call=read1}"]);
        let CostTime { low_ns, high_ns, .. } = one.time;
        assert!((130.0 - low_ns).abs() < 1e-9 && (460.0 - high_ns).abs() < 1e-9, "{one:?}");
    }

    #[test]
    fn files_of_the_run_are_prices_of_their_own() {
        let known = reads();
        let prices = Prices { known: &known, file_byte_ns: Some(0.1) };
        let read = row(Operation::Read(Place::File)).expect("a row");
        let of = prices.price(read, 10_000.0, 1.0).expect("a price");
        // 200 ns for the first byte, which is in the blocks of 64 KiB, too.
        assert_eq!(of.time.ns.round(), 1169.0);
        assert_eq!(of.from, ["file.call{call=read1}", "the files themselves"]);
    }

    #[test]
    fn writes_that_end_within_a_page_cost_more() {
        let create = |bytes, ns| time("file.create", &Params::one("bytes", bytes), ns);
        let block = Params::one("block", 65_536).and("sync", "none");
        let rate = Record::fixture("file.write.throughput", Unit::BytesPerSecond).of_case(&block);
        // 16 pages in one folio take 16 µs; a page in its own 2 µs.
        let known = [create(0, 1e4), create(4096, 1.2e4), create(10_240, 1.5e4)];
        let known = [&known[..], &[rate.within(65_536.0 / 16e-6, 0.0)]].concat();
        let ns = |size| price(&known, Operation::Write(Place::File), size).unwrap().time.ns;
        assert_eq!((ns(4096.0).round(), ns(65_536.0).round()), (2000.0, 16_000.0));
        assert_eq!((ns(36_864.0).round(), ns(10_240.0).round()), (9467.0, 5000.0));
        assert!((19_500.0..20_500.0).contains(&ns(65_535.0)), "{}", ns(65_535.0));
    }

    #[test]
    fn sync_costs_what_its_process_was_on_a_cpu() {
        let mut sync = time("file.fsync", &Params::one("bytes", 4096), 1e6);
        (sync.disturbance.cpu_ns, sync.disturbance.wall_ns) = (10, 100);
        let ns = price(&[sync], Operation::Sync, 0.0).unwrap().time.ns;
        assert_eq!(ns, 1e5);
    }

    #[test]
    fn user_side_of_a_call_is_no_system_time() {
        let mut records = reads();
        records.push(time("os.syscall", &Params::one("call", "getppid"), 100.0));
        let read = price(&records, Operation::Read(Place::File), 1.0).unwrap();
        assert_eq!(read.time.ns, 175.0);
        records.push(time("memory.fault", &Params::one("kind", "cow"), 1000.0));
        let fault = price(&records, Operation::Fault(FaultKind::Cow), 0.0).unwrap();
        assert_eq!(fault.time.ns, 1000.0, "a fault is no call");
    }

    #[test]
    fn missing_or_invalid_results_are_named() {
        let mut records = reads();
        records[1].verdict = Verdict::because(State::Invalid, Cause::Clock, "why");
        let read = Operation::Read(Place::File);
        let of = |records: &[Record], size| price(records, read, size).map(|it| it.time.ns.round());
        assert_eq!(of(&records, 4096.0), Ok(1211.0), "on the line from 1 byte to 64 KiB");
        records.truncate(2);
        let blocks = ["4096", "65536", "1048576"];
        let missing = blocks.map(|block| {
            format!("file.read.throughput{{block={block},state=warm,threads=1,way=read}}")
        });
        assert_eq!(of(&records, 1.0), Err(missing.to_vec()), "a single point is no line");
        let stat = vec!["file.path{call=stat}".to_owned()];
        assert_eq!(price(&records, Operation::Stat, 0.0), Err(stat));
    }

    #[test]
    fn switches_of_a_metric_are_not_paid_twice() {
        let switch = Params::one("set_bytes", 0);
        let chunk = Params::one("chunk_bytes", 65_536).and("cpus", 1);
        let pipe = Record::fixture("os.pipe.bandwidth", Unit::BytesPerSecond).of_case(&chunk);
        let records = [
            time("os.switch.process", &switch, 1500.0),
            time("os.thread.create_join", &Params::none(), 10_000.0),
            time("os.syscall", &Params::one("call", "getppid"), 100.0),
            time("os.pipe.rtt", &Params::one("calls", "bare"), 4000.0),
            pipe.within(2e9, 0.0),
        ];
        let ns = |operation, size| price(&records, operation, size).unwrap().time.ns;
        assert_eq!(ns(Operation::Thread, 0.0), 6300.0);
        assert_eq!(ns(Operation::Write(Place::Pipe), 1.0), 225.0);
        let elsewhere = price(&records, Operation::Elsewhere, 0.0);
        assert_eq!(elsewhere, Err(vec!["os.wake.cross_cpu{via=futex}".to_owned()]));
        // More than the whole is nothing, and no gain.
        let join = time("os.thread.create_join", &Params::none(), 2000.0);
        let short = [records[0].clone(), records[2].clone(), join];
        let thread = price(&short, Operation::Thread, 0.0).unwrap().time;
        assert_eq!((thread.ns, thread.low_ns), (0.0, 0.0));
    }

    #[test]
    fn newest_number_is_the_price() {
        let params = Params::one("call", "stat");
        let mut records = [300.0, 400.0, 500.0].map(|ns| time("file.path", &params, ns));
        records[2].verdict = Verdict::because(State::Unavailable, Cause::Missing, "why");
        assert_eq!(price(&records, Operation::Stat, 0.0).unwrap().time.ns, 400.0);
    }

    #[test]
    fn points_grow_and_each_operation_has_one_row() {
        for (at, one) in TABLE.iter().enumerate() {
            assert!(one.points.is_sorted_by(|a, b| a.size < b.size), "{:?}", one.operation);
            assert!(TABLE[..at].iter().all(|other| other.operation != one.operation));
            assert!(one.points.iter().all(|point| !point.parts.is_empty()));
        }
    }
}

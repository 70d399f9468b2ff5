//! file.reasonable_size: the size of a file whose reading takes a time that one can wait for.

use fathom_record::{Better, Counters, Host, NoModel, Params, Prediction, Unit};

use crate::{About, ByHand, Known, Parameter};

/// file.reasonable_size.
pub struct ReasonableSize;

/// What a read of a byte of a cached file costs.
const CALL: &str = "file.call";
/// What memory gives.
const BANDWIDTH: &str = "memory.bandwidth";
/// What reading with a block gives.
const THROUGHPUT: &str = "file.read.throughput";
/// A size foretold lies within this share of what its time allows.
const TOLERANCE: f64 = 0.30;

static ABOUT: About = About {
    id: "file.reasonable_size",
    title: "reasonable file size",
    unit: Unit::Bytes,
    better: Better::Neither,
    timed: "reading all of a file with a block, for sizes that are doubled while this takes less \
            time than the window and halved while it takes more: the first size within it",
    not_timed: "making the file, and bringing it into its state",
    model: "time ÷ (file.call{call=read1} ÷ block + 1 ÷ memory.bandwidth) for the times of the \
            window, warm; else time × file.read.throughput with this block as last measured",
    source: "the size follows from the time by the speed; how well it was foretold tells how well \
             the speed is known",
    pitfalls: &[
        "a size that is reasonable for one block is not for another: a call costs some 100 ns \
         whatever it carries",
        "warm, a file that does not fit into memory is never found: no size fits is an answer",
        "the first size within the window ends the search: of the sizes within it is one, and \
         neither the smallest nor the best",
    ],
    parameters: &[
        Parameter { name: "block", values: "bytes", meaning: "of one call" },
        Parameter {
            name: "state",
            values: "warm, cold, direct",
            meaning: "what of the file was in memory",
        },
        Parameter { name: "from_ms", values: "ms", meaning: "the shortest time of the window" },
        Parameter { name: "to_ms", values: "ms", meaning: "the longest" },
    ],
    needs: &[BANDWIDTH, THROUGHPUT],
    requires: "as much space, and warm as much memory, as the size found; at most half of either",
    published: "",
    expects: Counters::DEVICE,
    noise_limit: 0.10,
};

impl ByHand for ReasonableSize {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn command(&self) -> &'static str {
        "fathom file size"
    }

    fn predict(&self, params: &Params, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let integer = |name| params.integer(name).filter(|value| *value > 0);
        let values = integer("block").zip(integer("from_ms")).zip(integer("to_ms"));
        let Some(((block, from_ms), to_ms)) = values else {
            return Err(NoModel("a block and a window of times are its parameters".to_owned()));
        };
        let [from, to] = [from_ms, to_ms].map(|ms| ms as f64 / 1e3);
        let state = params.text("state").unwrap_or_default();
        let speed = match state {
            "warm" => by_calls(block as f64, known).or_else(|| as_measured(block, state, known)),
            _ => as_measured(block, state, known),
        };
        let Some(Speed { rate, formula, inputs }) = speed else {
            let text = format!("no {THROUGHPUT}{{block={block},state={state}}} of this host");
            return Err(NoModel(text));
        };
        let formula = format!("√({from} s × {to} s) × {formula}");
        let mut prediction =
            Prediction::sum(rate * (from * to).sqrt(), 0.0, TOLERANCE, &formula, ABOUT.source);
        // Any size whose time lies within the window may be the one that is found.
        prediction.low = Some((1.0 - TOLERANCE) * rate * from);
        prediction.high = Some((1.0 + TOLERANCE) * rate * to);
        for (name, value, unit, origin) in inputs {
            prediction = prediction.with_quantity(&name, value, unit, origin);
        }
        Ok(prediction.otherwise("reading was not as fast as it was foretold"))
    }
}

/// How fast a file is thought to be read.
struct Speed {
    rate: f64,
    formula: String,
    inputs: Vec<(String, f64, Unit, &'static str)>,
}

/// From the cost of a call and that of a byte.
fn by_calls(block: f64, known: &Known<'_>) -> Option<Speed> {
    let call = known.quantity(CALL, &Params::one("call", "read1"))?.value;
    let dram = Params::one("op", "read").and("threads", 1).and("level", "dram").and("page", "huge");
    let bandwidth = known.quantity(BANDWIDTH, &dram)?.value;
    let origin = "the newest result of this host";
    Some(Speed {
        rate: 1e9 / (call / block + 1e9 / bandwidth),
        formula: format!("1 ÷ ({CALL}{{call=read1}} ÷ block + 1 ÷ {BANDWIDTH})"),
        inputs: vec![
            (format!("{CALL}{{call=read1}}"), call, Unit::Nanoseconds, origin),
            (BANDWIDTH.to_owned(), bandwidth, Unit::BytesPerSecond, origin),
        ],
    })
}

/// As it was last measured by one thread.
fn as_measured(block: i64, state: &str, known: &Known<'_>) -> Option<Speed> {
    let is_alike = |params: &Params| {
        params.integer("block") == Some(block)
            && params.text("state") == Some(state)
            && params.integer("threads") == Some(1)
    };
    let newest = known.cases_of(THROUGHPUT).filter(|(params, _)| is_alike(params)).last();
    let (params, summary) = newest?;
    let name = format!("{THROUGHPUT}{params}");
    let origin = "the newest result of this host, maybe taken just before";
    Some(Speed {
        rate: summary.median,
        formula: THROUGHPUT.to_owned(),
        inputs: vec![(name, summary.median, Unit::BytesPerSecond, origin)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    fn asked(state: &str) -> Params {
        let times = Params::one("from_ms", 5_000).and("to_ms", 20_000);
        times.and("block", 100).and("state", state)
    }

    fn predicted(params: &Params, records: &[fathom_record::Record]) -> Result<f64, NoModel> {
        let known = Known::new(records);
        let prediction = ReasonableSize.predict(params, &Host::default(), &known)?;
        Ok(prediction.value.expect("a value"))
    }

    #[test]
    fn a_size_follows_from_what_a_call_and_a_byte_cost() {
        let call = Params::one("call", "read1");
        let dram = Params::one("op", "read").and("threads", 1);
        let dram = dram.and("level", "dram").and("page", "huge");
        let records =
            [smoke::record(CALL, &call, 90.0, 0.1), smoke::record(BANDWIDTH, &dram, 1e10, 1e6)];
        // 100 bytes take 90 ns and 10 ns: 1 GB/s, for 10 s.
        let size = predicted(&asked("warm"), &records).expect("a model");
        assert!((size / 1e10 - 1.0).abs() < 1e-9, "{size}");
        assert!(predicted(&asked("cold"), &records).is_err(), "a device is no memory");
    }

    #[test]
    fn else_it_follows_from_the_newest_speed_of_this_block_and_state() {
        let case = |block: i64, state: &str, file: i64| {
            let of = Params::one("block", block).and("state", state);
            of.and("threads", 1).and("way", "read").and("file_bytes", file)
        };
        let record = |params: &Params, rate| smoke::record(THROUGHPUT, params, rate, 1.0);
        let records = [
            record(&case(100, "cold", 1), 1e6),
            record(&case(100, "cold", 2), 3e6),
            record(&case(100, "warm", 3), 5e6),
            record(&case(200, "cold", 4), 7e6),
        ];
        assert_eq!(predicted(&asked("cold"), &records), Ok(3e7));
        assert_eq!(predicted(&asked("warm"), &records), Ok(5e7));
        let none = predicted(&asked("direct"), &records).expect_err("nothing is known of it");
        assert!(none.0.contains("block=100,state=direct"), "{}", none.0);
    }
}

//! file.contention: what a block costs while other processes read from the same device, and
//! file.contention.per_process, what each of them adds.

use fathom_record::{Better, Counters, Host, NoModel, Params, Prediction, Unit};

use crate::ordinal::Order;
use crate::{About, ByHand, Known, Parameter};

/// file.contention.
pub struct Contention;

/// file.contention.per_process.
pub struct PerProcess;

static ABOUT: About = About {
    id: "file.contention",
    title: "block while others read",
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    timed: "a block of 4 KiB, as one of several processes sees it that each read a file of their \
            own from its beginning: from when the last began until the first was done",
    not_timed: "starting the processes, opening the files, the time in which not all of them read",
    model: "an order: with others ≥ alone; alone it is the device's service time, for which there \
            is no model",
    source: "one request of each process at a time: Linux block/blk-mq.c",
    pitfalls: &[
        "files that are in memory make no device contend: they are read past the page cache, or \
         dropped from it before each round and not read ahead, and that they were is proved",
        "processes that are done early leave the others alone: what they do then does not count",
        "in a guest the host may hold the files in its memory",
    ],
    parameters: &[
        Parameter { name: "processes", values: "1, 2, …", meaning: "that read at the same time" },
        Parameter {
            name: "state",
            values: "direct, cold",
            meaning: "past the page cache; by way of it, after the files were dropped from it",
        },
    ],
    needs: &[],
    requires: "",
    published: "2016: 28.4 µs × processes + 53.1 µs",
    expects: Counters::DEVICE,
    noise_limit: 0.20,
};

static ABOUT_PER_PROCESS: About = About {
    id: "file.contention.per_process",
    title: "block, for each other process",
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    timed: "the slope of file.contention over the number of processes, in each round",
    not_timed: "what a block takes without others",
    model: "an order: ≤ file.contention{processes=1}. A device that serves one after the other \
            adds a whole service time for each process, one that serves several at once less",
    source: "queueing: n customers with one request each at one server wait n service times",
    pitfalls: &["a device that serves many at once gives no line but a step where it is full"],
    parameters: &[Parameter {
        name: "state",
        values: "direct, cold",
        meaning: "as for file.contention",
    }],
    needs: &["file.contention"],
    requires: "",
    published: "2016: 28.4 µs",
    expects: Counters::DEVICE,
    noise_limit: 0.20,
};

/// The case of one process alone in the same state.
fn alone(params: &Params) -> Params {
    Params::one("processes", 1).and("state", params.text("state").unwrap_or_default())
}

impl ByHand for Contention {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn command(&self) -> &'static str {
        "fathom file contend"
    }

    fn predict(&self, params: &Params, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        if params.integer("processes") == Some(1) {
            let text = "alone it is the device's service time, which no public figure gives";
            return Err(NoModel(text.to_owned()));
        }
        let source = "the device does for this process what it does for one alone";
        Order { factor: 1.0, metric: ABOUT.id, source }.claim(&alone(params), known)
    }
}

impl ByHand for PerProcess {
    fn about(&self) -> &'static About {
        &ABOUT_PER_PROCESS
    }

    fn command(&self) -> &'static str {
        "fathom file contend"
    }

    fn predict(&self, params: &Params, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let alone = alone(params);
        let name = format!("{}{alone}", ABOUT.id);
        let limit = crate::ordinal::earlier(ABOUT.id, &alone, known)?;
        let formula = format!("≤ {name}");
        let claim = Prediction::at_most(limit.value, &formula, ABOUT_PER_PROCESS.source);
        Ok(claim
            .within(limit.low, limit.high)
            .if_above(
                "processes cost each other more than the device's service: they break up what \
                 would be served together, or the CPUs are too few",
            )
            .with_quantity(&name, limit.value, Unit::Nanoseconds, &format!("this run: {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn with_others_it_is_no_less_than_alone_in_the_same_state() {
        let params = |n: i64| Params::one("processes", n).and("state", "direct");
        let records = [smoke::record("file.contention", &params(1), 80_000.0, 100.0)];
        let known = Known::new(&records);
        let predict = |params: &Params| Contention.predict(params, &Host::default(), &known);
        assert_eq!(predict(&params(4)).map(|claim| claim.low), Ok(Some(80_000.0)));
        assert!(predict(&params(1)).is_err(), "no number predicts itself");
        assert!(predict(&Params::one("processes", 4).and("state", "cold")).is_err());
        let slope = PerProcess.predict(&Params::one("state", "direct"), &Host::default(), &known);
        assert_eq!(slope.map(|claim| claim.high), Ok(Some(80_000.0)));
    }
}

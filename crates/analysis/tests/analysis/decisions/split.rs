//! Differences by the terms of a model.

use fathom_analysis::compare::{Compared, Split};
use fathom_record::{Prediction, Record, Unit};

use super::runs::{compared, record};

const NS: Unit = Unit::Nanoseconds;
const RATE: Unit = Unit::BytesPerSecond;

/// A read of 10 000 ns: a call, a copy of 4096 bytes, and what the model does not have.
fn run(call: f64, rate: f64, read: f64) -> Vec<Record> {
    let copy_ns = 4096.0 / rate * 1e9;
    let mut of_read = record("file.read", NS, read, 10);
    of_read.prediction = Some(
        Prediction::sum(copy_ns, call, 0.2, "call + 4096 ÷ rate", "why")
            .with_result("os.syscall", call, NS)
            .with_part(call)
            .with_quantity("block", 4096.0, Unit::Bytes, fathom_record::Origin::Case)
            .with_result("memory.bandwidth", rate, RATE)
            .with_part(copy_ns),
    );
    vec![record("os.syscall", NS, call, 10), record("memory.bandwidth", RATE, rate, 10), of_read]
}

fn split(a: Vec<Record>, b: Vec<Record>) -> Option<Split> {
    let rows = compared(a, b).rows;
    let row: &Compared = rows.iter().find(|row| row.metric.as_str() == "file.read").unwrap();
    row.split.clone()
}

#[test]
fn difference_is_the_sum_of_its_terms_and_the_rest() {
    // The call takes 1000 ns more; half the rate is 4096 ns more; 404 ns are unexplained.
    let split = split(run(1_000.0, 1e9, 6_000.0), run(2_000.0, 0.5e9, 11_500.0)).unwrap();
    let names: Vec<&str> = split.terms.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["memory.bandwidth", "os.syscall"], "the larger first; a size has no part");
    let close = |value: f64, expected: f64| (value - expected).abs() < 0.01 * expected.abs();
    assert!(close(split.terms[0].difference, 4096.0), "{split:?}");
    assert!(close(split.terms[1].difference, 1000.0), "{split:?}");
    assert!(close(split.unexplained, 404.0), "{split:?}");
    let terms: f64 = split.terms.iter().map(|it| it.difference).sum();
    assert!((terms + split.unexplained - split.difference).abs() < 1e-6, "it closes");
    let largest = split.terms.iter().map(|it| it.error).fold(0.0, f64::max);
    assert!(split.error > largest && split.error < 200.0, "{split:?}");
}

#[test]
fn sum_without_an_input_has_no_split() {
    let (a, mut b) = (run(1_000.0, 1e9, 6_000.0), run(2_000.0, 0.5e9, 11_500.0));
    b.remove(1);
    assert_eq!(split(a.clone(), b), None);
    let mut without = a.clone();
    without[2].prediction = None;
    assert_eq!(split(without, a), None);
}

//! The value of a record for output. Views read values through [`DisplayValue`] only, so that
//! values of invalid, unavailable and failed records are never printed.

use fathom_record::{Interval, Protocol, Record, Value};

/// The value of a record for output, in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DisplayValue<'a> {
    Number(f64),
    /// An edge: between these.
    Edge([f64; 2]),
    /// An upper limit.
    Bound(f64),
    Text(&'a str),
    /// The record is neither valid nor noisy, or has no value.
    Withheld,
}

impl<'a> DisplayValue<'a> {
    /// The headline of a protocol.
    pub fn from_record(record: &'a Record, protocol: Protocol) -> Self {
        if !record.verdict.shows_number() {
            return Self::Withheld;
        }
        if let Some(Value::Text(text)) = &record.value {
            return Self::Text(text);
        }
        let Some(summary) = &record.summary else {
            return Self::Withheld;
        };
        if let Some(bound) = summary.bound {
            return Self::Bound(bound);
        }
        let number = record.number(protocol).map_or(Self::Withheld, Self::Number);
        summary.interval.and_then(Interval::edge).map_or(number, Self::Edge)
    }

    pub fn number(self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Cause, State, Summary, Unit, Verdict};

    use super::*;

    #[test]
    fn only_valid_and_noisy_records_report_a_value() {
        for (state, shows) in [
            (State::Valid, true),
            (State::Noisy, true),
            (State::Invalid, false),
            (State::Unavailable, false),
            (State::Failed, false),
        ] {
            let mut record = Record::fixture("os.x", Unit::Nanoseconds);
            record.verdict = Verdict::because(state, Cause::Clock, "why");
            for protocol in [Protocol::Median, Protocol::Trimmed] {
                record.value = Some(Value::Text("7".to_owned()));
                assert_eq!(
                    DisplayValue::from_record(&record, protocol) != DisplayValue::Withheld,
                    shows,
                    "{state:?}"
                );
                record.value = None;
                record.summary = Some(Summary { median: 7.0, ..Summary::default() });
                assert_eq!(
                    DisplayValue::from_record(&record, protocol) != DisplayValue::Withheld,
                    shows,
                    "{state:?}"
                );
            }
        }
    }
}

//! What a record may show as its value: the only way to a number, so that none is read of a record
//! that is not valid or noisy.

use fathom_record::{Protocol, Record, Value};

/// What a record may show as its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shown<'a> {
    /// A number in the record's unit.
    Number(f64),
    /// An upper limit in the record's unit.
    Bound(f64),
    /// A value that is no quantity.
    Text(&'a str),
    /// None: the record is neither valid nor noisy, or holds nothing to show.
    Nothing,
}

impl<'a> Shown<'a> {
    /// What this record may show as the headline of a protocol.
    pub fn of(record: &'a Record, protocol: Protocol) -> Self {
        if !record.verdict.shows_number() {
            return Self::Nothing;
        }
        if let Some(Value::Text(text)) = &record.value {
            return Self::Text(text);
        }
        let Some(summary) = &record.summary else {
            return Self::Nothing;
        };
        if let Some(bound) = summary.bound {
            return Self::Bound(bound);
        }
        record.number(protocol).map_or(Self::Nothing, Self::Number)
    }

    /// The number, where it is one.
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Better, Cause, MetricId, Params, State, Summary, Unit, Verdict};

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
            let (metric, unit) = (MetricId::new("os.x"), Unit::Nanoseconds);
            let mut record = Record::new(metric, Params::none(), "", unit, Better::Lower);
            record.verdict = Verdict::because(state, Cause::Clock, "why");
            for protocol in [Protocol::Median, Protocol::Trimmed] {
                record.value = Some(Value::Text("7".to_owned()));
                assert_eq!(Shown::of(&record, protocol) != Shown::Nothing, shows, "{state:?}");
                record.value = None;
                record.summary = Some(Summary { median: 7.0, ..Summary::default() });
                assert_eq!(Shown::of(&record, protocol) != Shown::Nothing, shows, "{state:?}");
            }
        }
    }
}

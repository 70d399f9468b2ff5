//! Fields of a file and of options in the notation of users.

use std::collections::BTreeMap;

use fathom_metric::notation::{self, NotationError};
use fathom_record::ParamValue;
use serde::de::{Deserialize, Deserializer, Error};

use crate::scan::{self, ScanParameter};

/// `3%` as 0.03.
pub(crate) fn share(text: &str) -> Result<f64, NotationError> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if percent > 0.0 && percent <= 1000.0 => Ok(percent / 100.0),
        _ => Err(NotationError::new(text, "a percentage above 0, such as 3%")),
    }
}

/// `[parameters]`: a list of numbers and texts, or a range as of `-P`.
pub(crate) fn parameters<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<ScanParameter>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum FieldValues {
        List(Vec<ParamValue>),
        Range(String),
    }
    let all = BTreeMap::<String, FieldValues>::deserialize(from)?;
    let parameter = |(name, values)| match values {
        FieldValues::List(values) => Ok(ScanParameter { name, values }),
        FieldValues::Range(range) => scan::numbers(&name, &range)
            .map_err(|error| Error::custom(format!("parameter {name}: {error}, or a list"))),
    };
    all.into_iter().map(parameter).collect()
}

/// An exit status, or a list of them.
pub(crate) fn statuses<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<i32>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Statuses {
        One(u8),
        Several(Vec<u8>),
    }
    match Statuses::deserialize(from) {
        Ok(Statuses::One(status)) => Ok(vec![status.into()]),
        Ok(Statuses::Several(all)) if !all.is_empty() => {
            Ok(all.into_iter().map(i32::from).collect())
        }
        _ => Err(Error::custom("exit: expected a status from 0 to 255, or a list of them")),
    }
}

/// `"10s"` in seconds.
pub(crate) fn time<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    let time = notation::time(&String::deserialize(from)?).map_err(Error::custom)?;
    Ok(time.as_secs_f64())
}

pub(crate) fn optional_time<'d, D: Deserializer<'d>>(from: D) -> Result<Option<f64>, D::Error> {
    time(from).map(Some)
}

/// `"3%"` as 0.03.
pub(crate) fn optional_share<'d, D: Deserializer<'d>>(from: D) -> Result<Option<f64>, D::Error> {
    share(&String::deserialize(from)?).map(Some).map_err(Error::custom)
}

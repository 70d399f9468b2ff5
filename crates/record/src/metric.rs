//! Metric ids, parameters and units.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The stable dotted name of a metric, such as `os.syscall`. Renaming one is a schema change.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct MetricId(String);

impl MetricId {
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the first dot: `os` of `os.syscall`.
    pub fn group(&self) -> &str {
        self.0.split('.').next().unwrap_or(&self.0)
    }
}

/// The groups of metrics outside every registry: commands of the user, tried settings, and results
/// of other programs. Their records alone have title, unit and direction.
pub const OWN_GROUPS: [&str; 3] = ["bench", "doctor", "import"];

/// Whether a metric, or all metrics of a group, are outside every registry.
pub fn is_own(name: &str) -> bool {
    OWN_GROUPS.contains(&name.split('.').next().unwrap_or(name))
}

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The value of a parameter. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ParamValue {
    /// A count or a size in bytes.
    Integer(i64),
    /// A choice, such as the name of a system call.
    Text(String),
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

impl From<i64> for ParamValue {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<&str> for ParamValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// The parameters of a case, in alphabetical order of their names, so that equal cases are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Params(pub BTreeMap<String, ParamValue>);

impl Params {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn one(name: &str, value: impl Into<ParamValue>) -> Self {
        Self::none().and(name, value)
    }

    #[must_use]
    pub fn and(mut self, name: &str, value: impl Into<ParamValue>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.0.get(name) {
            Some(ParamValue::Integer(value)) => Some(*value),
            _ => None,
        }
    }

    /// An integer as another type, if it fits.
    pub fn number<T: TryFrom<i64>>(&self, name: &str) -> Option<T> {
        self.integer(name).and_then(|value| T::try_from(value).ok())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(ParamValue::Text(value)) => Some(value),
            _ => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `{args=3,form=register}`; empty without parameters.
impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let list: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        write!(f, "{{{}}}", list.join(","))
    }
}

/// The base unit of a value. Values are never stored in scaled units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Events per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Hertz.
    #[serde(rename = "Hz")]
    Hertz,
    /// A ratio, without unit.
    #[default]
    #[serde(rename = "ratio")]
    Ratio,
}

// The unit as written in JSON.
words!(
    Unit.symbol.ALL,
    Nanoseconds = "ns",
    Bytes = "bytes",
    BytesPerSecond = "bytes/s",
    PerSecond = "1/s",
    Hertz = "Hz",
    Ratio = "ratio"
);

impl Unit {
    /// Whether a value in this unit can be a result: a time of zero or less is an error.
    pub fn takes(self, value: f64) -> bool {
        value.is_finite() && !(self == Self::Nanoseconds && value <= 0.0)
    }
}

/// Which direction of change is an improvement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Smaller is better: times.
    Lower,
    /// Larger is better: rates.
    Higher,
    /// Neither: a property of the machine.
    #[default]
    Neither,
}

impl Better {
    /// Whether a change in this direction is an improvement; `None` if neither direction is.
    pub fn improves(self, grew: bool) -> Option<bool> {
        (self != Self::Neither).then_some(grew == (self == Self::Higher))
    }
}

/// Whether a name is this metric, or a dotted prefix of it.
pub fn matches(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_metrics_are_those_of_own_groups() {
        let own = ["bench", "bench.sort", "import.go.parse"];
        assert!(own.into_iter().all(is_own));
        assert!(!["benchmark", "os.bench", "", "importer.x"].into_iter().any(is_own));
    }
}

//! Typical values: where published machines of the same kind lie.

use serde::{Deserialize, Serialize};

/// Where the published numbers of machines with this CPU lie, in the unit of the record. It is what
/// such machines gave, not what they should give: it stands beside a prediction and is no part of
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Typical {
    /// The CPU, such as `AMD EPYC Genoa`.
    pub cpu: String,
    /// The sizes of the machines, such as `up to 4 CPUs`; absent for all sizes, where fewer than 8
    /// have this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Number of machine types, each measured once.
    pub n: u32,
    /// 5th percentile.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub high: f64,
    /// Number of machine types whose number is better than this record's.
    pub better: u32,
    /// Number of machine types whose number is worse than this record's.
    pub worse: u32,
    /// The range from the 5th to the 95th percentile, and the number with its interval.
    pub position: Position,
    /// Why the number is not judged, such as `core shared, 0.5 % undisturbed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<String>,
}

/// A number beside a typical range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// The interval lies wholly on the better side of the range.
    Better,
    /// It has a part in the range.
    Typical,
    /// The interval lies wholly on the worse side of the range.
    Worse,
    /// It lies outside, but the number says nothing of the machine: noisy, or of a shared core.
    NotJudged,
}

impl Typical {
    /// `worse than all 49`, `better than 96 % of 50`, `typical of 49`, `not judged: noisy`.
    pub fn words(&self) -> String {
        let (word, count) = match self.position {
            Position::Typical => return format!("typical of {}", self.n),
            Position::NotJudged => {
                return format!(
                    "not judged: {}",
                    self.not_judged.as_deref().unwrap_or("core shared")
                );
            }
            Position::Better => ("better", self.worse),
            Position::Worse => ("worse", self.better),
        };
        match count == self.n {
            true => format!("{word} than all {}", self.n),
            // Rounded down: 99.6 % is not all.
            false => format!("{word} than {} % of {}", 100 * count / self.n.max(1), self.n),
        }
    }

    /// `49 machine types with AMD EPYC Genoa and up to 4 CPUs`.
    pub fn group(&self) -> String {
        format!("{} machine types with {}", self.n, self.kind())
    }

    /// `AMD EPYC Genoa and up to 4 CPUs`.
    pub fn kind(&self) -> String {
        let size = self.size.as_ref().map_or_else(String::new, |size| format!(" and {size}"));
        format!("{}{size}", self.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_the_machines_that_are_passed() {
        let mut typical = Typical {
            cpu: "AMD EPYC Genoa".to_owned(),
            size: Some("up to 4 CPUs".to_owned()),
            n: 49,
            low: 96.5,
            median: 109.6,
            high: 128.3,
            better: 49,
            worse: 0,
            position: Position::Worse,
            not_judged: None,
        };
        assert_eq!(typical.words(), "worse than all 49");
        assert_eq!(typical.group(), "49 machine types with AMD EPYC Genoa and up to 4 CPUs");
        typical.better = 48;
        assert_eq!(typical.words(), "worse than 97 % of 49");
        (typical.better, typical.worse, typical.position) = (0, 49, Position::Better);
        assert_eq!(typical.words(), "better than all 49");
        typical.position = Position::Typical;
        assert_eq!(typical.words(), "typical of 49");
        typical.size = None;
        assert_eq!(typical.group(), "49 machine types with AMD EPYC Genoa");
    }
}

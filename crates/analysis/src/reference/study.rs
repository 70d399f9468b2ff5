//! Published figures from `data/reference/*.toml`.

use fathom_record::{MetricId, Params, Unit};
use serde::{Deserialize, Serialize};

/// All files, oldest first.
const FILES: [&str; 5] = [
    include_str!("../../../../data/reference/2015-load-lab.toml"),
    include_str!("../../../../data/reference/2016-i5-5257u.toml"),
    include_str!("../../../../data/reference/2020-transfer.toml"),
    include_str!("../../../../data/reference/2022-files-a.toml"),
    include_str!("../../../../data/reference/2022-files-b.toml"),
];

/// The figures of one study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyReference {
    /// The name on the command line.
    pub name: String,
    pub title: String,
    pub machine: String,
    /// The protocol, unless a record has its own.
    pub protocol: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Metrics that this version does not have.
    pub not_measured: Vec<MetricId>,
    pub record: Vec<Published>,
}

/// One figure that was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What the study calls it, in up to 22 letters: a row of the classic table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    pub metric: MetricId,
    /// The parameters that the study states. A case with them is the same work.
    #[serde(default)]
    pub params: Params,
    /// The unit of all numbers.
    #[serde(default = "nanoseconds")]
    pub unit: Unit,
    /// The published base performance of the hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<StudyFigure>,
    /// The published software overhead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<StudyFigure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<StudyFigure>,
    pub measured: StudyFigure,
    /// Standard deviation in per cent of `measured`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd_percent: Option<f64>,
    /// What the figure includes, if that differs from the metric here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why the work differs from that of the metric of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlike: Option<String>,
}

fn nanoseconds() -> Unit {
    Unit::Nanoseconds
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StudyFigure {
    Number(f64),
    /// From, to.
    Range([f64; 2]),
    /// Text instead of a number.
    Words(String),
}

impl Published {
    /// Whether a case is the published work: it has all parameters of the figure. `to = remote` of
    /// a study matches any far host.
    pub fn is_like(&self, metric: &MetricId, params: &Params) -> bool {
        let remote = self.params.text("to") == Some("remote");
        let far = params.text("to").is_some_and(|to| to != "loopback");
        let mut published = self.params.0.iter();
        self.metric == *metric
            && published.all(|(name, value)| {
                params.0.get(name) == Some(value) || (name == "to" && remote && far)
            })
    }
}

impl StudyFigure {
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// All studies.
///
/// # Panics
/// Never in practice: the files are part of the program, and a test reads them.
pub fn all() -> Vec<StudyReference> {
    FILES.iter().map(|text| toml::from_str(text).expect("data/reference is in order")).collect()
}

/// The study whose rows are the classic table.
pub const CLASSIC: &str = "2016-i5-5257u";

/// The study of this name.
pub fn find(name: &str) -> Option<StudyReference> {
    all().into_iter().find(|reference| reference.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_parse_and_have_unique_names() {
        let all = all();
        let mut names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        names.dedup();
        assert_eq!(names.len(), FILES.len());
        for (reference, figures) in all.iter().zip([11, 37, 48, 89, 16]) {
            assert_eq!(reference.record.len(), figures, "{}", reference.name);
        }
    }

    #[test]
    fn classic_operations_are_short_and_unique() {
        let classic = find(CLASSIC).unwrap();
        let names = classic.record.iter().map(|one| one.operation.as_deref().expect("a name"));
        let mut names: Vec<&str> = names.inspect(|name| assert!(name.len() <= 22)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 37);
    }

    #[test]
    fn unknown_field_in_a_study_is_an_error() {
        let text = FILES[1].replacen("sd_percent =", "sd_per_cent =", 1);
        assert!(toml::from_str::<StudyReference>(&text).is_err());
        let text = FILES[1].replacen("note =", "notes =", 1);
        assert!(toml::from_str::<StudyReference>(&text).is_err());
    }

    #[test]
    fn published_remote_matches_any_far_host() {
        let all = all();
        let figures = all.iter().flat_map(|reference| &reference.record);
        let rtt = MetricId::new("network.tcp.rtt");
        let [local, remote]: [&Published; 2] =
            figures.filter(|one| one.metric == rtt).collect::<Vec<_>>().try_into().unwrap();
        let matches = |params: &Params| [local, remote].map(|one| one.is_like(&rtt, params));
        let case =
            |to: &str| Params::one("to", to).and("bytes", 56).and("cpus", 1).and("mode", "block");
        assert_eq!(matches(&case("loopback")), [true, false]);
        assert_eq!(matches(&case("bench-4")), [false, true]);
        assert_eq!(matches(&case("remote")), [false, true]);
        assert_eq!(matches(&Params::one("bytes", 56)), [false, false]);
        assert_eq!(matches(&Params::one("to", "bench-4").and("bytes", 1)), [false, false]);
    }

    #[test]
    fn further_parameters_of_a_load_still_match() {
        let figures = find("2015-load-lab").unwrap().record;
        let server = Params::one("to", "bench-4").and("file_bytes", 2_000_000);
        let matches = |metric: &str, params: &Params| {
            let metric = MetricId::new(metric);
            figures.iter().filter(|one| one.is_like(&metric, params)).count()
        };
        for of in ["disk", "network"] {
            assert_eq!(matches("load.capacity", &server.clone().and("of", of)), 1, "{of}");
        }
        let case = server.and("mode", "random").and("think_s", 1);
        for metric in ["load.saturation", "load.clients_95"] {
            assert_eq!(matches(metric, &case), 1, "{metric}");
        }
        assert_eq!(matches("load.throughput", &case.clone().and("clients", 10)), 1);
        assert_eq!(matches("load.throughput", &case.and("clients", 2)), 0);
    }

    #[test]
    fn published_numbers_are_positive_and_finite() {
        for record in all().iter().flat_map(|reference| &reference.record) {
            let number = record.measured.number();
            assert!(number.is_none_or(|number| number.is_finite() && number > 0.0), "{record:?}");
            assert!(record.sd_percent.is_none() || number.is_some(), "{record:?}");
        }
    }
}

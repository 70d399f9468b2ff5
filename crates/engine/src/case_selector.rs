//! Selection of cases on the command line: a metric, a group, or some cases of a metric, such as
//! `os.syscall{call=stat}`.

use std::collections::BTreeSet;

use fathom_metric::{About, ProbeCase, notation};
use fathom_record::{ParamValue, Params, escaped, is_hidden, shell_word};

use crate::PlanError;

/// A selector as given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseSelector {
    pub text: String,
    /// A metric or a group.
    pub name: String,
    /// Required values of parameters. Empty for all cases.
    parameters: Vec<(String, String)>,
}

impl CaseSelector {
    /// Parses a selector, without checking that the metric exists.
    ///
    /// # Errors
    /// If braces do not contain `name=value` pairs.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        if text.contains(is_hidden) {
            return Err(malformed(&escaped(text)));
        }
        let (name, parameters) = match text.split_once('{') {
            None => (text, Vec::new()),
            Some((name, rest)) => (name, pairs(rest).ok_or_else(|| malformed(text))?),
        };
        Ok(Self { text: text.to_owned(), name: name.to_owned(), parameters })
    }

    /// Whether it selects some cases of a metric only.
    pub fn has_parameters(&self) -> bool {
        !self.parameters.is_empty()
    }

    /// How many values of parameters it requires.
    pub fn parameters(&self) -> usize {
        self.parameters.len()
    }

    /// Metric and requirements: the same for selectors of the same cases.
    pub fn key(&self) -> (&str, BTreeSet<&(String, String)>) {
        (&self.name, self.parameters.iter().collect())
    }

    /// The selector of these cases of a metric, quoted for a shell.
    pub fn quoted(&self, metric: &str) -> String {
        shell_word(if self.has_parameters() { &self.text } else { metric })
    }

    /// The selector without the requirements of a parameter.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.parameters.retain(|(parameter, _)| parameter != name);
        let pair = |(name, value): &(String, String)| format!("{name}={value}");
        let pairs: Vec<String> = self.parameters.iter().map(pair).collect();
        self.text = match pairs.as_slice() {
            [] => self.name.clone(),
            pairs => format!("{}{{{}}}", self.name, pairs.join(",")),
        };
        self
    }

    /// Whether a case with these parameters is selected. A parameter given twice may have either
    /// value.
    pub fn selects(&self, params: &Params) -> bool {
        let is = |name: &str, value: &str| {
            params.0.get(name).is_some_and(|param| match param {
                ParamValue::Integer(integer) => {
                    i64::try_from(notation::bytes(value).unwrap_or(u64::MAX)) == Ok(*integer)
                }
                ParamValue::Text(text) => text.eq_ignore_ascii_case(value),
            })
        };
        self.parameters.iter().all(|(name, _)| {
            self.parameters.iter().any(|(other, value)| other == name && is(name, value))
        })
    }

    /// The selected cases: of the usual ones, or of the first of the rarer lists that has any.
    ///
    /// # Errors
    /// If the metric has no such parameter, or no case with such values.
    pub(crate) fn select(
        &self,
        about: &About,
        usual: Vec<ProbeCase>,
        rarer: impl Iterator<Item = Vec<ProbeCase>>,
    ) -> Result<Vec<ProbeCase>, PlanError> {
        let known = |name: &str| about.parameters.iter().any(|one| one.name == name);
        if let Some((name, _)) = self.parameters.iter().find(|(name, _)| !known(name)) {
            let names: Vec<&str> = about.parameters.iter().map(|one| one.name).collect();
            let id = &about.id;
            return Err(PlanError::Selector(match names.as_slice() {
                [] => format!("{id} has no parameters"),
                names => format!("{id} has no parameter `{name}`; it has: {}", names.join(", ")),
            }));
        }
        let selected = |cases: Vec<ProbeCase>| -> Vec<ProbeCase> {
            cases.into_iter().filter(|case| self.selects(&case.params)).collect()
        };
        let mut lists = std::iter::once(usual).chain(rarer).map(selected);
        lists.find(|cases| !cases.is_empty()).ok_or_else(|| {
            let values = |one: &fathom_metric::Parameter| format!("{} = {}", one.name, one.values);
            let is_given = |name: &str| self.parameters.iter().any(|(given, _)| given == name);
            let given = about.parameters.iter().filter(|one| is_given(one.name));
            let there_are = given.map(values).collect::<Vec<_>>().join("; ");
            PlanError::NoSuchCase { text: self.text.clone(), there_are }
        })
    }
}

/// Parses `name=value,…}`.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let inner = text.trim_end().strip_suffix('}')?;
    let pair = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        (!name.is_empty() && !value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    inner.split(',').map(pair).collect()
}

fn malformed(text: &str) -> PlanError {
    PlanError::Selector(format!("`{text}`: select cases as in `os.syscall{{call=stat}}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(text: &str, params: &Params) -> bool {
        CaseSelector::parse(text).unwrap().selects(params)
    }

    #[test]
    fn selectors_with_parameters_are_quoted_for_a_shell() {
        let quoted = |text: &str| CaseSelector::parse(text).unwrap().quoted("os.pipe.bandwidth");
        assert_eq!(quoted("os.pipe.bandwidth{cpus=2}"), "'os.pipe.bandwidth{cpus=2}'");
        assert_eq!(quoted("os.pipe"), "os.pipe.bandwidth");
        assert_eq!(quoted("os.pipe{a=';x}"), r"'os.pipe{a='\'';x}'");
    }

    #[test]
    fn selector_without_a_parameter_keeps_the_others() {
        let without = |text: &str| CaseSelector::parse(text).unwrap().without("to").text;
        assert_eq!(
            without("network.tcp.rtt{bytes=1,to=host,cpus=2}"),
            "network.tcp.rtt{bytes=1,cpus=2}"
        );
        assert_eq!(without("network.tcp.rtt{to=host}"), "network.tcp.rtt");
    }

    #[test]
    fn cases_are_selected_by_parameters() {
        let params = Params::one("part", "fork").and("rss_bytes", 16 << 20);
        assert!(selects("os.process.fork", &params));
        assert!(selects("os.process.fork{part=fork}", &params));
        assert!(selects("os.process.fork{ part = Fork , rss_bytes = 16MiB }", &params));
        assert!(selects("os.process.fork{rss_bytes=16777216}", &params));
        assert!(selects("os.process.fork{part=total,part=fork}", &params), "either");
        assert!(!selects("os.process.fork{part=total}", &params));
        assert!(!selects("os.process.fork{rss_bytes=16}", &params));
        assert!(!selects("os.process.fork{args=1}", &params));
    }

    #[test]
    fn braces_without_pairs_are_an_error() {
        for text in ["a{", "a{}", "a{b}", "a{b=}", "a{=b}", "a{b=c", "a{b=c}d", "a{b=c,}"] {
            assert!(CaseSelector::parse(text).is_err(), "{text}");
        }
    }
}

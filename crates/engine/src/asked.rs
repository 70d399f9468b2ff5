//! One word of the command line: a metric, a group, or some cases of a metric, as
//! `os.syscall{call=stat}`.

use fathom_metric::{About, Case, notation};
use fathom_record::{ParamValue, Params};

use crate::PlanError;

/// What one word asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub text: String,
    /// A metric or a group.
    pub name: String,
    /// What the parameters of its cases must be; empty for all cases.
    only: Vec<(String, String)>,
}

impl Asked {
    /// Reads a word; whether there is such a metric is seen later.
    ///
    /// # Errors
    /// Braces that do not hold `name=value` pairs.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let (name, only) = match text.split_once('{') {
            None => (text, Vec::new()),
            Some((name, rest)) => (name, pairs(rest).ok_or_else(|| malformed(text))?),
        };
        Ok(Self { text: text.to_owned(), name: name.to_owned(), only })
    }

    /// Whether some cases of a metric were asked for, and not all.
    pub fn is_of_some_cases(&self) -> bool {
        !self.only.is_empty()
    }

    /// The word for a shell, as it would ask for these cases of a metric.
    pub fn typed(&self, metric: &str) -> String {
        if self.only.is_empty() { metric.to_owned() } else { format!("'{}'", self.text) }
    }

    /// Whether a case with these parameters was asked for; a parameter that is named twice may
    /// have either value.
    pub fn selects(&self, params: &Params) -> bool {
        let is = |name: &str, value: &str| {
            params.0.get(name).is_some_and(|param| match param {
                ParamValue::Integer(integer) => {
                    i64::try_from(notation::bytes(value).unwrap_or(u64::MAX)) == Ok(*integer)
                }
                ParamValue::Text(text) => text.eq_ignore_ascii_case(value),
            })
        };
        self.only.iter().all(|(name, _)| {
            self.only.iter().any(|(other, value)| other == name && is(name, value))
        })
    }

    /// The cases asked for: of those that this effort takes, or where none of them was meant, of
    /// those that are taken at all.
    ///
    /// # Errors
    /// When the metric has no such parameter, or no case with such values.
    pub(crate) fn of(
        &self,
        about: &About,
        usual: Vec<Case>,
        all: impl FnOnce() -> Vec<Case>,
    ) -> Result<Vec<Case>, PlanError> {
        let known = |name: &str| about.parameters.iter().any(|one| one.name == name);
        if let Some((name, _)) = self.only.iter().find(|(name, _)| !known(name)) {
            return Err(PlanError::NoSuchParameter {
                metric: about.id.to_owned(),
                name: name.clone(),
                there_are: about
                    .parameters
                    .iter()
                    .map(|one| one.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            });
        }
        let selected = |cases: Vec<Case>| -> Vec<Case> {
            cases.into_iter().filter(|case| self.selects(&case.params)).collect()
        };
        let mut cases = selected(usual);
        if cases.is_empty() {
            cases = selected(all());
        }
        if cases.is_empty() {
            let values = |one: &fathom_metric::Parameter| format!("{} = {}", one.name, one.values);
            let meant = about
                .parameters
                .iter()
                .filter(|one| self.only.iter().any(|(name, _)| name == one.name));
            return Err(PlanError::NoSuchCase {
                text: self.text.clone(),
                there_are: meant.map(values).collect::<Vec<_>>().join("; "),
            });
        }
        Ok(cases)
    }
}

/// `name=value,…}` in pairs.
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
    PlanError::Malformed { text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(asked: &str, params: &Params) -> bool {
        Asked::parse(asked).unwrap().selects(params)
    }

    #[test]
    fn cases_are_chosen_by_their_parameters() {
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
    fn braces_that_hold_no_pairs_are_refused() {
        for text in ["a{", "a{}", "a{b}", "a{b=}", "a{=b}", "a{b=c", "a{b=c}d", "a{b=c,}"] {
            assert!(matches!(Asked::parse(text), Err(PlanError::Malformed { .. })), "{text}");
        }
    }
}

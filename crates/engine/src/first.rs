//! What people look at first: it gets time first, and visits of its own.

use fathom_metric::{Entry, ProbeCase};
use fathom_record::Params;

use crate::plan::{Plan, VisitGroup};

impl Plan {
    /// The plan with some cases first: those that `first` chooses of the cases of a metric, and
    /// what they are computed from. They have visits of their own, unless others are computed from
    /// all cases of a process.
    #[must_use]
    pub fn with_first(mut self, first: impl Fn(&str, &[&Params]) -> Vec<Params>) -> Self {
        let mut chosen: Vec<(&str, Params)> = Vec::new();
        for entry in [false, true].iter().flat_map(|needed| self.metrics(*needed)) {
            let id = entry.about().id;
            let units = self.units.iter().filter(|unit| unit.entry.about().id == id);
            let params: Vec<&Params> =
                units.flat_map(|unit| &unit.cases).map(|case| &case.params).collect();
            chosen.extend(first(id, &params).into_iter().map(|params| (id, params)));
        }
        let is_chosen = |id: &str, case: &ProbeCase| {
            chosen.iter().any(|one| one.0 == id && one.1 == case.params)
        };
        let (mut sources, mut of_chosen) = (Vec::new(), Vec::new());
        for unit in &self.units {
            let Entry::Derived(derived) = unit.entry else { continue };
            // What has several inputs takes processes of different visits anyway.
            if let [one] = derived.inputs() {
                sources.push(*one);
            }
            if unit.cases.iter().any(|case| is_chosen(derived.about().id, case)) {
                of_chosen.extend(derived.about().needs);
            }
        }
        let parts = |unit: VisitGroup| -> Vec<VisitGroup> {
            let id = unit.entry.about().id;
            let is_first = |case: &ProbeCase| of_chosen.contains(&id) || is_chosen(id, case);
            if sources.contains(&id) || matches!(unit.entry, Entry::Derived(_)) {
                return vec![VisitGroup { is_first: unit.cases.iter().any(is_first), ..unit }];
            }
            let cases = unit.cases.into_iter().zip(unit.places);
            let (ahead, others): (Vec<_>, Vec<_>) = cases.partition(|(case, _)| is_first(case));
            let parts = [(ahead, true), (others, false)].into_iter();
            let part = |(cases, is_first): (Vec<(ProbeCase, usize)>, bool)| {
                let (cases, places) = cases.into_iter().unzip();
                VisitGroup { cases, places, is_first, ..unit }
            };
            parts.filter(|(cases, _)| !cases.is_empty()).map(part).collect()
        };
        self.units = std::mem::take(&mut self.units).into_iter().flat_map(parts).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use fathom_probes::REGISTRY;
    use fathom_record::{Effort, Host, Protocol};

    use super::*;

    #[test]
    fn rows_of_a_screen_and_their_sources_are_first() {
        let first = |metric: &str, all: &[&Params]| -> Vec<Params> {
            match metric {
                "cpu.call.per_argument" => vec![all[0].clone()],
                "os.process.fork" => vec![all[1].clone()],
                _ => Vec::new(),
            }
        };
        let plan =
            Plan::new(&REGISTRY, Vec::new(), Effort::Quick, Protocol::Median, 1, &Host::default());
        let plan = plan.expect("a plan").with_first(first);
        let first = plan.units.iter().filter(|unit| unit.is_first);
        let first: Vec<_> = first.map(|unit| (unit.entry.about().id, unit.cases.len())).collect();
        let expected = [
            ("cpu.frequency", 1),
            ("cpu.call", 8),
            ("cpu.call.per_argument", 3),
            ("os.process.fork", 1),
        ];
        assert_eq!(first, expected);
        let mut forks = plan.units.iter().filter(|it| it.entry.about().id == "os.process.fork");
        assert_eq!(forks.next().map(|unit| unit.places.clone()), Some(vec![1]));
        assert_eq!(forks.next().map(|unit| unit.places[..2].to_vec()), Some(vec![0, 2]));
    }
}

//! What added loads say of the resource that is named as the bottleneck.

use super::shape::ShapeEstimate;

/// The least share of the effect of an added load on a bottleneck that it has not on another
/// resource: what took much more than was planned shows nothing.
const APART_MIN: f64 = 0.25;

#[derive(Clone, Debug, PartialEq)]
pub enum Proof {
    Confirmed,
    Refuted(String),
    Inconclusive(String),
    NotDone(String),
}

/// The effect of load that was added to one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadEffect {
    pub of: &'static str,
    /// The throughput with it ÷ without it.
    pub measured: ShapeEstimate,
    /// That ratio if the resource is the bottleneck, and if another one is: by the time that the
    /// load took as measured, and by what else it cost.
    pub if_limit: f64,
    pub if_other: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Limits,
    DoesNot,
    /// The interval excludes neither, or the load cannot tell.
    Neither,
}

impl LoadEffect {
    fn shown(&self) -> Shown {
        let middle = f64::midpoint(self.if_limit, self.if_other);
        match self.measured {
            _ if self.if_other - self.if_limit <= APART_MIN * (1.0 - self.if_limit) => {
                Shown::Neither
            }
            measured if measured.high() < middle => Shown::Limits,
            measured if measured.low() > middle => Shown::DoesNot,
            _ => Shown::Neither,
        }
    }

    /// Whether its interval excludes one of both.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.shown() != Shown::Neither
    }

    fn words(&self) -> String {
        let percent = |ratio: f64| format!("{:.0} %", 100.0 * ratio);
        let Self { of, measured, if_limit, if_other } = self;
        let [low, high] = [measured.low(), measured.high()].map(percent);
        let range = if low == high { String::new() } else { format!(" ({low} to {high})") };
        format!(
            "{of}: added load leaves {}{range} of the throughput; {} if it limits, {} if not",
            percent(measured.value),
            percent(*if_limit),
            percent(*if_other)
        )
    }
}

/// Confirms a suspect if its load has the effect of one that is added to a bottleneck, and the
/// interval of each other effect excludes that. `untried`: resources without an added load, which
/// are not excluded. `contention`: what disturbed the windows, which then refute nothing.
#[must_use]
pub fn prove(
    suspect: &str,
    found: &[LoadEffect],
    untried: Option<&str>,
    contention: Option<&str>,
) -> Proof {
    let Some(own) = found.iter().find(|effect| effect.of == suspect) else {
        return Proof::NotDone("no load can be added to it".to_owned());
    };
    let because = |text: String| match contention {
        Some(contention) => Proof::Inconclusive(format!("{contention}; {text}")),
        None => Proof::Inconclusive(text),
    };
    let others = || found.iter().filter(|effect| effect.of != suspect);
    let against = match own.shown() {
        Shown::Neither => return because(own.words()),
        Shown::DoesNot => Some(own.words()),
        Shown::Limits => others().find(|it| it.shown() == Shown::Limits).map(|other| {
            format!("load added to another resource has the same effect: {}", other.words())
        }),
    };
    let open: Vec<String> = others().filter(|it| !it.is_decided()).map(LoadEffect::words).collect();
    match against {
        Some(text) if contention.is_none() => Proof::Refuted(text),
        Some(text) => because(text),
        // Without another added load nothing is ruled out.
        None if others().next().is_none() => {
            because("no load was added to another resource".to_owned())
        }
        None if open.is_empty() => match untried {
            None => Proof::Confirmed,
            Some(untried) => because(format!(
                "of the added loads only its own lowers the throughput; none was added to {untried}"
            )),
        },
        None => because(format!("not excluded: {}", open.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(of: &'static str, [low, value, high]: [f64; 3]) -> LoadEffect {
        let measured = ShapeEstimate { value, interval: Some([low, high]) };
        let if_other = if of == "becomes" { 0.8 } else { 1.0 };
        LoadEffect { of, measured, if_limit: 0.67, if_other }
    }

    fn proof(own: [f64; 3], cpu: [f64; 3]) -> Proof {
        let becomes = effect("becomes", [0.78, 0.8, 0.82]);
        prove("disk", &[effect("disk", own), effect("server-cpu", cpu), becomes], None, None)
    }

    const FALLS: [f64; 3] = [0.63, 0.67, 0.71];
    const STAYS: [f64; 3] = [0.95, 0.99, 1.03];

    #[test]
    fn suspect_is_confirmed_if_each_other_effect_is_excluded() {
        assert_eq!(proof(FALLS, STAYS), Proof::Confirmed);
        // As it was measured on a busy machine.
        for wide in [[0.07, 0.31, 1.45], [0.11, 0.35, 1.08], [0.5, 0.75, 1.1]] {
            let Proof::Inconclusive(why) = proof(FALLS, wide) else { panic!("{wide:?}") };
            assert!(why.starts_with("not excluded: server-cpu: added load leaves"), "{why}");
        }
        assert!(matches!(proof([0.5, 0.7, 0.9], STAYS), Proof::Inconclusive(_)), "too wide");
        let alone = prove("disk", &[effect("disk", FALLS)], None, None);
        assert!(matches!(alone, Proof::Inconclusive(_)), "nothing else was tried: {alone:?}");
        let both = [effect("disk", FALLS), effect("server-cpu", STAYS)];
        let part = prove("disk", &both, Some("serial"), None);
        let Proof::Inconclusive(why) = part else { panic!("a lock is not excluded: {part:?}") };
        assert!(why.ends_with("none was added to serial"), "{why}");
    }

    #[test]
    fn missing_effect_and_that_of_another_load_refute() {
        assert!(matches!(proof(STAYS, STAYS), Proof::Refuted(_)), "none of its own");
        assert!(matches!(proof(FALLS, FALLS), Proof::Refuted(_)), "of any load");
        let none = prove("undetermined", &[effect("disk", FALLS)], None, None);
        assert!(matches!(none, Proof::NotDone(_)));
    }

    #[test]
    fn contended_windows_refute_nothing() {
        let [disk, cpu] = ["disk", "server-cpu"].map(|of| effect(of, FALLS));
        for own in [disk.clone(), effect("disk", STAYS)] {
            let Proof::Inconclusive(why) =
                prove("disk", &[own, cpu.clone()], None, Some("CPU busy"))
            else {
                panic!("refuted")
            };
            assert!(why.starts_with("CPU busy; "), "{why}");
        }
        let stays = effect("server-cpu", STAYS);
        assert_eq!(prove("disk", &[disk, stays], None, Some("CPU busy")), Proof::Confirmed);
    }

    #[test]
    fn load_that_took_more_than_planned_shows_nothing() {
        // A spin of 1 ms that took 19 ms beside other programs, of requests of 2 ms.
        let took = |if_limit, if_other| LoadEffect {
            if_limit,
            if_other,
            ..effect("server-cpu", [0.096, 0.097, 0.098])
        };
        let disk = effect("disk", FALLS);
        let refuted = prove("disk", &[disk.clone(), took(0.67, 1.0)], None, None);
        assert!(matches!(refuted, Proof::Refuted(_)), "by the plan");
        let by_time = prove("disk", &[disk.clone(), took(0.095, 0.105)], None, None);
        assert!(matches!(by_time, Proof::Inconclusive(_)), "{by_time:?}");
        let nothing = prove("disk", &[disk, took(1.0, 1.0)], None, None);
        assert!(matches!(nothing, Proof::Inconclusive(_)), "it took nothing: {nothing:?}");
    }

    #[test]
    fn small_load_excludes_by_a_narrow_interval() {
        // At most 16 MB of the disk, which are 4 % of a request that takes 167 ms of a slow link.
        let small = |interval| LoadEffect { if_limit: 0.96, ..effect("disk", interval) };
        let link = effect("network", FALLS);
        let narrow = prove("network", &[link.clone(), small([0.997, 1.008, 1.02])], None, None);
        assert_eq!(narrow, Proof::Confirmed);
        let wide = prove("network", &[link, small([0.95, 1.0, 1.05])], None, None);
        assert!(matches!(wide, Proof::Inconclusive(_)), "{wide:?}");
    }
}

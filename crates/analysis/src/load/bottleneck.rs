//! Which resource limits the throughput at saturation.

use super::shape::{Shape, ShapeEstimate};

/// A resource with at least this utilisation is saturated.
pub const BUSY: f64 = 0.85;
/// One with at most this is not.
const IDLE: f64 = 0.75;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Network,
    Disk,
    ServerCpu,
    Client,
    Pacing,
}

fathom_record::words!(
    Resource.word,
    Network = "network",
    Disk = "disk",
    ServerCpu = "server CPU",
    Client = "client CPU",
    Pacing = "pacing"
);

/// What the requests used of a resource at saturation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    pub resource: Resource,
    /// Share of its capacity; `None` if unknown, which is not zero.
    pub utilisation: Option<ShapeEstimate>,
    /// Its time per request. `None` if unknown.
    pub demand_s: Option<f64>,
    /// The resource that limited the measurement of its capacity: it can give more.
    pub measured_under: Option<Resource>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Name {
    Resource(Resource),
    /// The throughput is saturated and no resource is: a lock, a single thread, a limit on
    /// connections.
    Serial,
    /// With the reason.
    Undetermined(String),
}

/// Names the bottleneck: a utilisation of at least 85 % (the lower limit of its interval), while
/// no other exceeds 75 % (the upper limits). A utilisation without an interval counts as exact.
/// Only a serial section needs a level throughput as evidence: a busy CPU may still become faster
/// with more clients, whose requests it handles together.
#[must_use]
pub fn bottleneck(shape: &Shape, uses: &[Use]) -> Name {
    match (named(uses), shape) {
        (name @ Name::Resource(_), _) | (name, Shape::Saturated(_)) => name,
        (_, Shape::NotSaturated { up_to: 0, why }) => Name::Undetermined(why.clone()),
        (_, Shape::NotSaturated { up_to, .. }) => {
            Name::Undetermined(format!("not saturated up to {up_to} clients"))
        }
    }
}

/// The name at saturation.
fn named(uses: &[Use]) -> Name {
    let mut known: Vec<(Resource, ShapeEstimate)> =
        uses.iter().filter_map(|it| Some((it.resource, it.utilisation?))).collect();
    // What is limited by a saturated resource while its capacity is measured, too, is not another
    // one.
    let saturated: Vec<Resource> =
        known.iter().filter(|(_, share)| share.low() >= BUSY).map(|(one, _)| *one).collect();
    let is_own = |it: &&Use| it.measured_under.is_none_or(|under| !saturated.contains(&under));
    let own: Vec<&Use> = uses.iter().filter(is_own).collect();
    known.retain(|(resource, _)| own.iter().any(|it| it.resource == *resource));
    let unknown = own.iter().filter(|it| it.utilisation.is_none());
    let unknown: Vec<&str> = unknown.map(|it| it.resource.word()).collect();
    known.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    // Those that may be saturated.
    let words: Vec<String> = known
        .iter()
        .filter(|(_, utilisation)| utilisation.high() > IDLE)
        .map(|(resource, utilisation)| {
            format!("{} at {:.0} %", resource.word(), 100.0 * utilisation.value)
        })
        .collect();
    if !unknown.is_empty() {
        let unknown = format!("utilisation unknown: {}", unknown.join(", "));
        return Name::Undetermined([words, vec![unknown]].concat().join("; "));
    }
    match (words.as_slice(), known.as_slice()) {
        (_, []) => Name::Undetermined("no utilisation is known".to_owned()),
        ([], _) => Name::Serial,
        ([_], [(resource, utilisation), ..]) if utilisation.low() >= BUSY => {
            Name::Resource(*resource)
        }
        ([one], _) => Name::Undetermined(format!(
            "{one}: not shown to be above {:.0} % or below {:.0} %",
            100.0 * BUSY,
            100.0 * IDLE
        )),
        _ => Name::Undetermined(format!("{}: too close to tell", words.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Saturation;
    use super::*;

    fn saturated() -> Shape {
        let clients_95 = ShapeEstimate { value: 6.0, interval: None };
        Shape::Saturated(Saturation {
            throughput: ShapeEstimate { value: 100.0, interval: None },
            steps: vec![8, 16],
            plateau_from: 8,
            falls_from: None,
            knee: None,
            clients_95,
        })
    }

    fn used(resource: Resource, value: f64, half: f64) -> Use {
        let interval = (half > 0.0).then_some([value - half, value + half]);
        let utilisation = Some(ShapeEstimate { value, interval });
        Use { resource, utilisation, demand_s: Some(0.01), measured_under: None }
    }

    fn unknown(resource: Resource) -> Use {
        Use { resource, utilisation: None, demand_s: None, measured_under: None }
    }

    fn reason(uses: &[Use]) -> String {
        match bottleneck(&saturated(), uses) {
            Name::Undetermined(reason) => reason,
            name => panic!("{name:?}"),
        }
    }

    #[test]
    fn bottleneck_is_what_is_saturated() {
        // One saturated resource is the bottleneck.
        use Resource::{Disk, Network, ServerCpu};
        let name = bottleneck(&saturated(), &[used(Network, 0.6, 0.0), used(Disk, 0.95, 0.05)]);
        assert_eq!(name, Name::Resource(Disk));
        let limits = bottleneck(&saturated(), &[used(Disk, 0.85, 0.0), used(ServerCpu, 0.75, 0.0)]);
        assert_eq!(limits, Name::Resource(Disk));
        // No saturated resource is a serial section.
        let uses = [used(Resource::Disk, 0.7, 0.05), used(Resource::Network, 0.3, 0.0)];
        assert_eq!(bottleneck(&saturated(), &uses), Name::Serial);
    }

    #[test]
    fn close_utilisations_are_undetermined() {
        use Resource::{Disk, Network};
        let both = reason(&[used(Network, 0.88, 0.0), used(Disk, 0.92, 0.0)]);
        assert_eq!(both, "disk at 92 %, network at 88 %: too close to tell");
        let next = reason(&[used(Disk, 0.92, 0.0), used(Network, 0.72, 0.04)]);
        assert_eq!(next, "disk at 92 %, network at 72 %: too close to tell");
        let between = reason(&[used(Disk, 0.8, 0.0), used(Network, 0.1, 0.0)]);
        assert_eq!(between, "disk at 80 %: not shown to be above 85 % or below 75 %");
        let wide = reason(&[used(Disk, 0.92, 0.08)]);
        assert_eq!(wide, "disk at 92 %: not shown to be above 85 % or below 75 %");
    }

    #[test]
    fn capacity_measured_under_the_bottleneck_is_no_second_one() {
        use Resource::{Network, ServerCpu};
        let network = Use { measured_under: Some(ServerCpu), ..used(Network, 0.97, 0.0) };
        let both = [network, used(ServerCpu, 0.99, 0.0)];
        assert_eq!(bottleneck(&saturated(), &both), Name::Resource(ServerCpu));
        // Without that limit it is one.
        let idle = [network, used(ServerCpu, 0.3, 0.0)];
        assert_eq!(bottleneck(&saturated(), &idle), Name::Resource(Network));
    }

    #[test]
    fn unknown_utilisation_is_undetermined() {
        let uses = [used(Resource::Disk, 0.95, 0.0), unknown(Resource::ServerCpu)];
        assert_eq!(reason(&uses), "disk at 95 %; utilisation unknown: server CPU");
        assert_eq!(reason(&[unknown(Resource::Disk)]), "utilisation unknown: disk");
        assert_eq!(reason(&[]), "no utilisation is known");
        // Unless a saturated resource is what keeps it busy.
        let under = Some(Resource::ServerCpu);
        let network = Use { measured_under: under, ..unknown(Resource::Network) };
        let with = |cpu| bottleneck(&saturated(), &[used(Resource::ServerCpu, cpu, 0.0), network]);
        assert_eq!(with(0.95), Name::Resource(Resource::ServerCpu));
        assert!(matches!(with(0.8), Name::Undetermined(_)));
    }

    #[test]
    fn curve_without_saturation_has_no_bottleneck() {
        let shape = Shape::NotSaturated { up_to: 8, why: String::new() };
        let unsaturated = Name::Undetermined("not saturated up to 8 clients".to_owned());
        for share in [0.3, 0.8] {
            let name = bottleneck(&shape, &[used(Resource::Disk, share, 0.0)]);
            assert_eq!(name, unsaturated, "{share}");
        }
        let unusable = Shape::NotSaturated { up_to: 0, why: "no step".to_owned() };
        let name = bottleneck(&unusable, &[used(Resource::Disk, 0.3, 0.0)]);
        assert_eq!(name, Name::Undetermined("no step".to_owned()));
    }

    #[test]
    fn busy_resource_has_a_name_before_throughput_is_level() {
        // Busy resource has a name before throughput is level.
        let shape = Shape::NotSaturated { up_to: 8, why: String::new() };
        let name = bottleneck(&shape, &[used(Resource::ServerCpu, 0.95, 0.0)]);
        assert_eq!(name, Name::Resource(Resource::ServerCpu));
    }
}

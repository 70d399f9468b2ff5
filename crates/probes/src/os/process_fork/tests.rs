use super::*;
use crate::smoke;

#[test]
fn one_fork_gives_both_parts() {
    let results = smoke::run(&ProcessFork);
    let parts: Vec<_> = results.iter().filter_map(|(case, _)| case.params.text("part")).collect();
    assert_eq!(parts, PARTS);
    let values = |index: usize| &results[index].1.as_ref().unwrap().values;
    assert!(values(0).iter().zip(values(1)).all(|(fork, total)| 0.0 < *fork && fork < total));
    let checks = &results[0].1.as_ref().unwrap().checks;
    assert!(checks.iter().any(|check| check.name == "resident memory"), "{checks:?}");
}

#[test]
fn too_large_a_size_is_unavailable() {
    let pib = 1_u64 << 50;
    let cases = [("total", MIB), ("fork", pib), ("total", pib)]
        .map(|(part, rss)| ProbeCase { params: params(part, rss), cost_ns: 0.0 });
    let samples = smoke::visit(&ProcessFork, &cases);
    assert!(samples[0].is_ok());
    for sample in &samples[1..] {
        let fault = sample.as_ref().unwrap_err();
        let SamplerFault::Unavailable(reason, _) = fault else { panic!("{fault}") };
        assert!(reason.contains("needs 1073741824 MiB"), "{reason}");
    }
}

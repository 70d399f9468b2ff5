use super::*;
use crate::smoke;

#[test]
fn unknown_link_kind_fails() {
    let mut sampler = smoke::sampler(1, 0);
    UNIX_RTT
        .visit(&[ProbeCase::usual(Params::one("kind", "carrier pigeon"))], &mut sampler)
        .unwrap();
    let fault = sampler.finish().samples.remove(0).unwrap_err();
    assert!(matches!(&fault, SamplerFault::Failed(text) if text.contains("pigeon")), "{fault}");
}

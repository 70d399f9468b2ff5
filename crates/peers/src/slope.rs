//! Throughput from time against size, which excludes fixed costs such as program start.

use fathom_analysis::statistics;

use crate::process::RunError;
use crate::row::PeerReading;

const GIB: f64 = (1 << 30) as f64;

/// Bytes a second from the slope of seconds over bytes. The rate of the largest size includes the
/// fixed costs, so it should be lower: if the slope gives less, the slope is noise, and the rate of
/// the largest size is returned.
pub(crate) fn rate(points: &[(f64, f64)]) -> Result<PeerReading, RunError> {
    let (bytes, seconds): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let line = statistics::theil_sen(&bytes, &seconds);
    let slope = line.map(|line| line.slope).filter(|slope| *slope > 0.0);
    let slope = slope.ok_or_else(|| RunError::Failed("time does not grow with size".to_owned()))?;
    let largest = bytes.iter().copied().fold(0.0, f64::max);
    let times: Vec<f64> = points.iter().filter(|it| it.0 == largest).map(|it| it.1).collect();
    let gross = largest / statistics::median(&times).unwrap_or_default();
    let mib = largest / f64::from(1 << 20);
    let whole = format!("{mib:.0} MiB with fixed costs {:.2} GiB/s", gross / GIB);
    if 1.0 / slope < gross {
        return Ok(PeerReading::from_value(gross)?.with(format!("slope within noise; {whole}")));
    }
    let detail = format!("slope {:.2} GiB/s; {whole}", 1.0 / slope / GIB);
    Ok(PeerReading::from_value(1.0 / slope)?.with(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_excludes_fixed_costs() {
        // 10 ms plus 1 s for each 10 GB; one point is an outlier.
        let point = |bytes: f64| (bytes, 0.01 + bytes / 1e10);
        let mut points: Vec<(f64, f64)> = [1e9, 2e9, 3e9, 1e9, 2e9, 3e9].map(point).into();
        points[1].1 += 0.05;
        let reading = rate(&points).unwrap();
        assert!((reading.value / 1e10 - 1.0).abs() < 0.01, "{reading:?}");
        assert!(reading.detail.contains("2861 MiB with fixed costs 9.01"), "{}", reading.detail);
    }

    #[test]
    fn noisy_slope_is_replaced_by_the_largest_size() {
        let points = [(1e9, 0.1), (2e9, 0.4)];
        let reading = rate(&points).unwrap();
        assert_eq!(reading.value, 2e9 / 0.4);
        assert!(reading.detail.starts_with("slope within noise; 1907 MiB"), "{}", reading.detail);
        let points = [(1e9, 0.1), (2e9, 0.8), (2e9, 0.4), (2e9, 0.41)];
        assert_eq!(rate(&points).unwrap().value, 2e9 / 0.41, "median of the largest");
        assert!(rate(&[(1e9, 0.2), (2e9, 0.1)]).is_err() && rate(&[]).is_err());
    }
}

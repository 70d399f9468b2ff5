//! Time against size: what one more byte takes, without what is paid once.

use fathom_analysis::statistics;

use crate::row::{Reading, ReadingError};

const GIB: f64 = (1 << 30) as f64;

/// Bytes a second from the slope of seconds over bytes, and beside it the rate of the largest size,
/// which still has in it what is paid once. A slope slower than that says that something paid once
/// gave time back: it was lost in noise, and the largest size alone is told.
///
/// # Errors
/// Where more bytes take no more time.
pub(crate) fn rate(points: &[(f64, f64)]) -> Result<Reading, ReadingError> {
    let (bytes, seconds): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let line = statistics::theil_sen(&bytes, &seconds);
    let slope = line.map(|line| line.slope).filter(|slope| *slope > 0.0);
    let slope = slope.ok_or(ReadingError::NoSlope)?;
    let most = bytes.iter().copied().fold(0.0, f64::max);
    let took: Vec<f64> = points.iter().filter(|point| point.0 == most).map(|it| it.1).collect();
    let alone = most / statistics::median(&took).unwrap_or_default();
    let whole = format!("{:.0} MiB alone {:.2} GiB/s", most / f64::from(1 << 20), alone / GIB);
    if 1.0 / slope < alone {
        return Ok(Reading::of(alone)?.with(format!("the slope was lost in noise; {whole}")));
    }
    let detail = format!("by the slope {:.2} GiB/s; {whole}", 1.0 / slope / GIB);
    Ok(Reading::of(1.0 / slope)?.with(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_costs_the_same_each_time_is_not_in_the_slope() {
        // 10 ms, and a second for each 10 GB; one of them was interrupted.
        let point = |bytes: f64| (bytes, 0.01 + bytes / 1e10);
        let mut points: Vec<(f64, f64)> = [1e9, 2e9, 3e9, 1e9, 2e9, 3e9].map(point).into();
        points[1].1 += 0.05;
        let reading = rate(&points).unwrap();
        assert!((reading.value / 1e10 - 1.0).abs() < 0.01, "{reading:?}");
        assert!(reading.detail.contains("2861 MiB alone 9.01 GiB/s"), "{}", reading.detail);
    }

    #[test]
    fn a_slope_slower_than_the_whole_is_not_told() {
        // The second start was interrupted: a line through both begins before there was time.
        let points = [(1e9, 0.1), (2e9, 0.4)];
        let reading = rate(&points).unwrap();
        assert_eq!(reading.value, 2e9 / 0.4);
        assert_eq!(reading.detail, "the slope was lost in noise; 1907 MiB alone 4.66 GiB/s");
        // Of several of the largest the median stands for them.
        let points = [(1e9, 0.1), (2e9, 0.8), (2e9, 0.4), (2e9, 0.41)];
        assert_eq!(rate(&points).unwrap().value, 2e9 / 0.41);
    }

    #[test]
    fn times_that_do_not_grow_are_no_rate() {
        assert!(rate(&[(1e9, 0.2), (2e9, 0.1)]).is_err());
        assert!(rate(&[]).is_err());
    }
}

//! Non-finite values, and sums at the limits of their type.

use super::{EVERYTHING, close, each_band, in_bands, panels, quantise};
use crate::Pooling;
use crate::fused::Precision;
use crate::fused::bands::{Banded, Bands};
use crate::fused::isa::Isa;
use crate::fused::kernels::{
    AttentionHead, AttentionScratch, Finish, Left, Norm, Normalise, Pool, Product, Widened,
};
use crate::fused::packed::Packed;
use crate::fused::panels::{PANEL, Panels, RowBlocks, stride};

/// An overflow must reach the final check: no kernel may turn it into a finite number again.
#[test]
fn an_overflow_stays_non_finite() {
    for isa in Isa::available() {
        // Scores of +∞, of −∞, and of both, which is NaN.
        for signs in [[1.0, 1.0], [1.0, -1.0]] {
            let rows: Vec<Vec<f32>> = signs.map(|sign| vec![1e30 * sign; PANEL]).to_vec();
            let bands = Bands::new(2, 1);
            let data = in_bands(&rows, bands);
            let all = Banded::new(&data, bands, 1);
            let mut out = vec![0.0; bands.stride()];
            isa.run(AttentionHead {
                queries: all,
                keys: all,
                values: all,
                head: PANEL,
                sequences: &[(0, 2)],
                mask: EVERYTHING,
                scratch: &mut AttentionScratch::new(2, PANEL),
                out: each_band(&mut out, bands),
            });
            assert!(!out[0].is_finite(), "attention, {}: {}", isa.name(), out[0]);
        }
        let row: Vec<f32> = (0..PANEL)
            .map(|at| if at < 9 { 1e20 } else { 0.0 })
            .collect();
        let stride = stride(1);
        let mut states = panels(&[row], stride);
        let mut out = vec![0.0; PANEL];
        isa.run(Pool {
            states: Banded::new(&states, Bands::new(1, 1), 1),
            first: 0,
            rows: 1,
            pooling: Pooling::Mean,
            unit: true,
            out: &mut out,
        });
        assert!(!out[0].is_finite(), "pooling, {}: {}", isa.name(), out[0]);
        let norm = Norm {
            scale: &[1.0; PANEL],
            shift: &[0.0; PANEL],
            epsilon: 1e-12,
            centred: true,
        };
        for rows in RowBlocks::new(&mut states, stride, 1, 1) {
            isa.run(Normalise { rows, norm });
        }
        assert!(
            !states[0].is_finite(),
            "norm, {}: {}",
            isa.name(),
            states[0]
        );
    }
}

/// An overflow must reach the final check, whatever integer it is converted to.
#[test]
fn non_finite_rows_stay_so_when_quantized() {
    for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut left = vec![vec![1.0; 2 * PANEL]; 2];
        left[1][PANEL + 7] = broken;
        let stride = stride(2);
        let data = panels(&left, stride);
        for isa in Isa::available() {
            let scales = quantise(isa, Panels::new(&data, stride), 2, 2 * PANEL).scales;
            assert_eq!(scales[0], 1.0 / 32767.0, "{}", isa.name());
            assert!(scales[1].is_nan(), "{} {broken}: {}", isa.name(), scales[1]);
        }
    }
}

/// The largest factors, and as many as are summed before conversion to floats.
#[test]
fn sums_of_integers_do_not_overflow() {
    let depth = 12 * PANEL;
    let stride = stride(1);
    for isa in Isa::available() {
        for sign in [1.0, -1.0] {
            let data = panels(&[vec![sign; 2 * depth]], stride);
            let floats = Panels::new(&data, stride);
            let quantised = quantise(isa, floats, 1, 2 * depth);
            let weights = vec![1.0; 2 * depth * PANEL];
            let packed = Packed::new(weights, 2 * depth, 1.0, Precision::Int8, isa);
            let mut out = vec![f32::NAN; stride];
            let product = Product {
                left: Left::Int8(quantised.rows(stride)),
                rows: 1,
                depth: 2 * depth,
                weights: packed.columns(0..PANEL, 2 * depth),
                after: None,
                bias: &[0.0; PANEL],
                finish: Finish::Store,
                out: &mut out,
                stride,
            };
            product.run(isa, &mut Widened::new(Precision::Int8, isa));
            for found in &out[..PANEL] {
                assert!(
                    close(*found, f64::from(sign) * 2.0 * depth as f64, 1e-2),
                    "{}: {found}",
                    isa.name()
                );
            }
        }
    }
}

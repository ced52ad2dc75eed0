//! A long list is picked from without asking everybody: what that costs in latency, against the same core asking everybody.

use labor_sim::compare::{MEAN, P99, average};
use labor_sim::{Kind, Scenario, run};

/// Short of the bar of 5 % in the mean; a short run's p99 is noisier.
const SLACK: [f64; 2] = [1.05, 1.07];

fn compare(text: &str) {
    let scenario = Scenario::parse(text).unwrap();
    let seeds = [21, 22];
    let [ours, scan] = [Kind::Labor, Kind::LaborScan].map(|kind| seeds.map(|seed| run(&scenario, kind, seed)));
    for (figure, slack) in [MEAN, P99].into_iter().zip(SLACK) {
        let [ours, scan] = [&ours, &scan].map(|runs| average(&runs.each_ref().map(figure)));
        assert!(ours <= slack * scan, "{ours:.2} against {scan:.2} ms of a scan in {text}");
    }
}

/// Everybody is busy, and three quarters of all changes happen at other workers.
#[test]
fn busy_servers_of_four_workers() {
    compare(
        "about='x'\nrate=67500\nduration=6\nwarmup=3\nworkers=4\n\
         [[server]]\ncount=300\nservice_ms=5\nnet_ms=0.5\nconcurrency=4\nservice_to_ms=25\n",
    );
}

/// Nearly everybody is idle: the fastest have to be found, and found again when they are free.
#[test]
fn idle_servers() {
    compare(
        "about='x'\nrate=3000\nduration=30\nwarmup=10\nworkers=2\n\
         [[server]]\ncount=400\nservice_ms=2\nnet_ms=0.5\nconcurrency=2\nservice_to_ms=40\n",
    );
}

/*
 * engine.rs: the engine of engine.c in Rust, through the C library.
 *
 *   rustc -O examples/engine.rs -L ~/lanekit/lib -l static=lanekit -o engine_rs
 *   ./engine_rs NAME [ENVIRONMENTS]      until SIGTERM; then StepClient.attach(NAME) in Python
 *
 * Rust's standard library is all it needs. The declarations are those of lanekit_api.h; bindgen
 * would write them from lanekit.h. All that is unsafe is in `Lane`, which hands the regions out as
 * slices between an exchange and its commit, when the engine alone may touch them.
 */
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::slice::from_raw_parts_mut;

#[repr(C)]
struct StepConfig {
    mode: u32,
    halves: u32,
    num_envs: u32,
    obs_size: u32,
    act_size: u32,
    obs_item_size: u32,
    act_item_size: u32,
    reward_size: u32,
    obs_dtype: [u8; 8], // as numpy writes it
    act_dtype: [u8; 8],
    final_obs: u32,
    info_count: u32,
    description_size: u32,
    image: [u32; 3],
    command_ring_size: u64,
    gpu: [u32; 3],
    gpu_obs_handle: [u8; 64],
}

#[repr(C)]
struct StepRegions {
    obs: *mut [f32; 2],
    actions: *mut f32,
    rewards: *mut f32,
    dones: *mut u8,
    truncateds: *mut u8,
    resets: *mut u8,
    seeds: *mut u64,
    others: [*mut c_void; 5],
}

#[repr(C)]
#[derive(Default)]
struct StepExchange {
    number: u64,
    request: u32,
    half: u32,
    first_env: u32,
    env_count: u32,
}

const STEP: u32 = 0; // enum lk_step_request
const RESET_NO: u8 = 0; // enum lk_step_reset
const RESET_SEEDED: u8 = 2;
const WAIT_HYBRID: c_int = 0;
const PEER_LOST: c_int = -24; // enum lk_status

extern "C" {
    fn lk_process_protect() -> c_int;
    fn lk_status_name(status: c_int) -> *const c_char;
    fn lk_segment_release(segment: *mut c_void);
    fn lk_step_create(
        out: *mut *mut c_void,
        name: *const u8,
        name_size: usize,
        config: *const StepConfig,
        info_names: *const c_char,
        description: *const c_char,
    ) -> c_int;
    fn lk_step_server_regions(
        server: *mut c_void,
        segment: *mut *mut c_void,
        out: *mut StepRegions,
    ) -> c_int;
    fn lk_step_wait_actions(
        server: *mut c_void,
        timeout_ns: u64,
        strategy: c_int,
        out: *mut StepExchange,
    ) -> c_int;
    fn lk_step_commit(server: *mut c_void) -> c_int;
    fn lk_step_server_unlink(server: *mut c_void) -> c_int;
    fn lk_step_server_free(server: *mut c_void);
}

/// The engine's end of a step lane.
struct Lane {
    server: *mut c_void,
    segment: *mut c_void,
    regions: StepRegions,
}

/// What one exchange is about, for as long as it lasts.
struct Exchange<'lane> {
    steps: bool,
    masses: &'lane mut [[f32; 2]],
    pushes: &'lane [f32],
    rewards: &'lane mut [f32],
    dones: &'lane mut [u8],
    resets: &'lane [u8],
    seeds: &'lane [u64],
}

impl Lane {
    fn create(name: &str, num_envs: u32) -> Result<Lane, c_int> {
        let float = *b"<f4\0\0\0\0\0";
        let config = StepConfig {
            mode: 0,
            halves: 1,
            num_envs,
            obs_size: 2,
            act_size: 1,
            obs_item_size: 4,
            act_item_size: 4,
            reward_size: 4,
            obs_dtype: float,
            act_dtype: float,
            final_obs: 0,
            info_count: 0,
            description_size: 0,
            image: [0; 3],
            command_ring_size: 0,
            gpu: [0; 3],
            gpu_obs_handle: [0; 64],
        };
        unsafe {
            lk_process_protect(); // so that SIGTERM and SIGINT remove the lane
            let (mut server, mut segment) = (null_mut(), null_mut());
            let (name, size) = (name.as_ptr(), name.len());
            let status = lk_step_create(&mut server, name, size, &config, null(), null());
            if status < 0 {
                return Err(status);
            }
            let mut regions = std::mem::zeroed();
            lk_step_server_regions(server, &mut segment, &mut regions);
            Ok(Lane { server, segment, regions })
        }
    }

    /// Wait for the next exchange. A trainer that died is followed by the next one.
    fn wait(&mut self) -> Result<Exchange<'_>, c_int> {
        let mut asked = StepExchange::default();
        loop {
            match unsafe { lk_step_wait_actions(self.server, u64::MAX, WAIT_HYBRID, &mut asked) } {
                1 => break,
                status if status >= 0 || status == PEER_LOST => continue,
                status => return Err(status),
            }
        }
        let (first, count) = (asked.first_env as usize, asked.env_count as usize);
        let lane = &self.regions;
        unsafe {
            Ok(Exchange {
                steps: asked.request == STEP,
                masses: from_raw_parts_mut(lane.obs.add(first), count),
                pushes: from_raw_parts_mut(lane.actions.add(first), count),
                rewards: from_raw_parts_mut(lane.rewards.add(first), count),
                dones: from_raw_parts_mut(lane.dones.add(first), count),
                resets: from_raw_parts_mut(lane.resets.add(first), count),
                seeds: from_raw_parts_mut(lane.seeds.add(first), count),
            })
        }
    }

    /// Hand the results to the trainer.
    fn commit(&mut self) -> Result<(), c_int> {
        match unsafe { lk_step_commit(self.server) } {
            status if status < 0 => Err(status),
            _ => Ok(()),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        unsafe {
            lk_segment_release(self.segment);
            lk_step_server_unlink(self.server);
            lk_step_server_free(self.server);
        }
    }
}

fn status_name(status: c_int) -> String {
    unsafe { CStr::from_ptr(lk_status_name(status)) }.to_string_lossy().into_owned()
}

/// A mass on a spring for each environment: position and velocity.
fn simulate(asked: Exchange<'_>) {
    for (i, [position, velocity]) in asked.masses.iter_mut().enumerate() {
        if asked.resets[i] != RESET_NO {
            let seeded = asked.resets[i] == RESET_SEEDED;
            *velocity = 0.0;
            *position = if seeded { (asked.seeds[i] % 1000) as f32 / 1000.0 - 0.5 } else { 0.0 };
        } else if asked.steps {
            *velocity += (asked.pushes[i] - *position) * 0.05;
            *position += *velocity * 0.05;
        }
        asked.rewards[i] = -*position * *position;
        asked.dones[i] = (position.abs() > 2.0) as u8;
    }
}

fn serve(name: &str, num_envs: u32) -> Result<(), c_int> {
    let mut lane = Lane::create(name, num_envs)?;
    loop {
        simulate(lane.wait()?);
        lane.commit()?;
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or("engine".into());
    let num_envs = arguments.next().map_or(16, |text| text.parse().expect("a number"));
    if let Err(status) = serve(&name, num_envs) {
        eprintln!("{name}: {}", status_name(status));
        std::process::exit(1);
    }
}

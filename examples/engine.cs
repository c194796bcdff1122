/*
 * engine.cs: the engine of engine.c in C#, through the C library.
 *
 *   gcc -std=gnu11 -O2 -fPIC -shared csrc/*.c -o liblanekit.so
 *   mcs -unsafe examples/engine.cs -out:engine.exe
 *   LD_LIBRARY_PATH=. mono engine.exe NAME [ENVIRONMENTS]     until SIGTERM
 *
 * then StepClient.attach(NAME) in Python. The declarations are those of lanekit_api.h. The regions
 * are memory that the trainer shares, so they are pointers: an engine may touch them from an
 * exchange until its commit.
 */
using System;
using System.Runtime.InteropServices;
using System.Text;

[StructLayout(LayoutKind.Sequential)]
unsafe struct StepConfig {
    public uint Mode, Halves, NumEnvs, ObsSize, ActSize, ObsItemSize, ActItemSize, RewardSize;
    public fixed byte ObsDtype[8]; // as numpy writes it
    public fixed byte ActDtype[8];
    public uint FinalObs, InfoCount, DescriptionSize, ImageWidth, ImageHeight, ImageChannels;
    public ulong CommandRingSize;
    public uint GpuAvailable, GpuObsMode, GpuDeviceId;
    public fixed byte GpuObsHandle[64];
}

[StructLayout(LayoutKind.Sequential)]
unsafe struct StepRegions {
    public float* Obs, Actions, Rewards;
    public byte* Dones, Truncateds, Resets;
    public ulong* Seeds;
    public void* FinalObs;
    public double* Infos;
    public byte* InfoNames, Description, Images;
}

[StructLayout(LayoutKind.Sequential)]
struct StepExchange {
    public ulong Number;
    public uint Request, Half, FirstEnv, EnvCount;
}

static class Lanekit {
    const string Library = "lanekit"; // liblanekit.so
    public const uint Step = 0; // enum lk_step_request
    public const byte ResetNo = 0, ResetSeeded = 2; // enum lk_step_reset
    public const int WaitHybrid = 0, PeerLost = -24; // enum lk_wait_strategy, enum lk_status

    [DllImport(Library)] public static extern int lk_process_protect();
    [DllImport(Library)] public static extern IntPtr lk_status_name(int status);
    [DllImport(Library)] public static extern void lk_segment_release(IntPtr segment);
    [DllImport(Library)] public static extern int lk_step_create(out IntPtr server, byte[] name,
        UIntPtr nameSize, ref StepConfig config, byte[] infoNames, byte[] description);
    [DllImport(Library)] public static extern int lk_step_server_regions(IntPtr server,
        out IntPtr segment, out StepRegions regions);
    [DllImport(Library)] public static extern int lk_step_wait_actions(IntPtr server,
        ulong timeoutNs, int strategy, out StepExchange asked);
    [DllImport(Library)] public static extern int lk_step_commit(IntPtr server);
    [DllImport(Library)] public static extern int lk_step_server_unlink(IntPtr server);
    [DllImport(Library)] public static extern void lk_step_server_free(IntPtr server);
}

static unsafe class Engine {
    static StepConfig Describe(uint numEnvs) {
        var config = new StepConfig {
            Halves = 1, NumEnvs = numEnvs, ObsSize = 2, ActSize = 1,
            ObsItemSize = 4, ActItemSize = 4, RewardSize = 4,
        };
        var dtype = "<f4";
        for (var i = 0; i < dtype.Length; i++) {
            config.ObsDtype[i] = config.ActDtype[i] = (byte)dtype[i];
        }
        return config;
    }

    /* A mass on a spring for each environment: position and velocity. */
    static void Simulate(StepRegions lane, StepExchange asked) {
        for (var env = asked.FirstEnv; env < asked.FirstEnv + asked.EnvCount; env++) {
            float* position = lane.Obs + 2 * env;
            float* velocity = position + 1;
            if (lane.Resets[env] != Lanekit.ResetNo) {
                var seeded = lane.Resets[env] == Lanekit.ResetSeeded;
                *velocity = 0;
                *position = seeded ? (float)((float)(lane.Seeds[env] % 1000) / 1000) - 0.5f : 0;
            } else if (asked.Request == Lanekit.Step) {
                /* The casts round: without them C# may compute with more digits than float has. */
                var pull = (float)(lane.Actions[env] - *position);
                *velocity += (float)(pull * 0.05f);
                *position += (float)(*velocity * 0.05f);
            }
            lane.Rewards[env] = -*position * *position;
            lane.Dones[env] = (byte)(Math.Abs(*position) > 2 ? 1 : 0);
        }
    }

    /* Serve until something ends it, and return what. A trainer that died is followed by the next. */
    static int Serve(IntPtr server, StepRegions lane) {
        for (;;) {
            StepExchange asked;
            var status = Lanekit.lk_step_wait_actions(
                server, ulong.MaxValue, Lanekit.WaitHybrid, out asked);
            if (status == Lanekit.PeerLost || status == 0) {
                continue;
            }
            if (status < 0) {
                return status;
            }
            Simulate(lane, asked);
            status = Lanekit.lk_step_commit(server);
            if (status < 0) {
                return status;
            }
        }
    }

    static int Main(string[] arguments) {
        var name = arguments.Length > 0 ? arguments[0] : "engine";
        var config = Describe(arguments.Length > 1 ? uint.Parse(arguments[1]) : 16);
        var bytes = Encoding.UTF8.GetBytes(name);
        Lanekit.lk_process_protect(); // so that SIGTERM and SIGINT remove the lane
        IntPtr server;
        var status = Lanekit.lk_step_create(
            out server, bytes, (UIntPtr)bytes.Length, ref config, null, null);
        if (status >= 0) {
            IntPtr segment;
            StepRegions lane;
            Lanekit.lk_step_server_regions(server, out segment, out lane);
            status = Serve(server, lane);
            Lanekit.lk_segment_release(segment);
            Lanekit.lk_step_server_unlink(server);
            Lanekit.lk_step_server_free(server);
        }
        var what = Marshal.PtrToStringAnsi(Lanekit.lk_status_name(status));
        Console.Error.WriteLine("{0}: {1}", name, what);
        return 1;
    }
}

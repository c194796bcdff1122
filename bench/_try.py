from bench.fast_lane import *
from bench.fast_lane import _run_id,_train,_frames
import lanekit._core as core
import time
now=time.perf_counter_ns
L=limits.load()
def t(fn,n=20000):
    best=[]
    for r in range(7):
        s=np.zeros(n,np.int64)
        for i in range(n):
            a=now(); fn(); s[i]=now()-a
        best.append(np.percentile(s,50))
    return np.median(best)
if __name__=="__main__":
    machine.pin(0)
    size=SMALL
    frame=_frames(size.config,1)[0]
    tiny=FastLaneConfig(8,8); tf=_frames(tiny,1)[0]
    w=FastLaneWriter.create(_run_id("x"),tiny); W=FastLaneWriter.create(_run_id("y"),size.config)
    for i in range(200): w.publish(tf); W.publish(frame)
    slot=L.ffi.new("char[]",64); src=L.ffi.from_buffer(frame)
    mem=L.lib.limit_memcpy
    class A:
        def f(self,frame,*,metrics=None,metadata=None): return 1
    a=A(); 
    lib=core.lib; h=w._handle
    src8=core.ffi.from_buffer(tf)
    pub=lib.lk_frame_publish_source; s=w._pinned[1]
    pubp=lib.lk_frame_publish_pixels
    big=W._pinned[1]; H=W._handle
    fb=core.ffi.from_buffer
    def row(n,f): print(f"{n:40s} {t(f):8.0f}")
    row("nothing (lambda)", lambda: None)
    row("method kwonly", lambda: a.f(frame))
    row("cffi memcpy size 0 (3 args)", lambda: mem(slot,src,0))
    row("cffi lk_clock_ns (0 args)", lambda: lib.lk_clock_ns())
    row("cffi lk_frame_watched (1 ptr)", lambda: lib.lk_frame_watched(h))
    row("cffi publish_source 8x8", lambda: pub(s))
    row("cffi publish_pixels 8x8", lambda: pubp(h,src8))
    row("writer.publish same 8x8", lambda: w.publish(tf))
    row("cffi publish_source 84", lambda: pub(big))
    row("writer.publish same 84", lambda: W.publish(frame))
    row("from_buffer", lambda: fb(frame))
    row("from_buffer+publish_pixels 84", lambda: pubp(H,fb(frame)))
    f2=frame.copy()
    row("writer.publish not pinned 84", lambda: W.publish(f2))
    row("shape check", lambda: frame.shape != W._shape)
    row("dtype check", lambda: frame.dtype is not np.uint8)
    m=FastLaneMetrics(1,2,3)
    row("publish metrics", lambda: W.publish(frame,metrics=m))
    row("reserve", lambda: W.reserve().commit())
    c=limits.call_publish(W,frame,20000); print("C publish", np.percentile(c,50))
    c=limits.call_publish(w,tf,20000); print("C publish 8x8", np.percentile(c,50))
    w.close();w.unlink();W.close();W.unlink()

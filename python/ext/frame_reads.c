/*
 * frame_reads.c: the hot calls of a fast-lane reader, for CPython.
 *
 * As in frame_publish.c, the plain case is handled here and everything else goes back to Python; in
 * particular a reader that moved to a new writer.
 *
 * Who writes: the Python class sets the aim, again whenever the reader moves. Who reads: each call,
 * with a reference of its own, so that an aim that another thread replaces lives until it is done.
 */
#include "frame_calls.h"

/* The names this file looks up, made once. */
static struct {
    PyObject *metrics, *metadata, *fresh;
    PyObject *last_reward, *rolling_return, *step_rate_hz;
    PyObject *data, *width, *height, *channels, *seq, *timestamp_ns, *pixel_format, *skipped;
    PyObject *read_into_other, *latest_frame_other;
} names;

static const struct name all_names[] = {
    {&names.metrics, "metrics"},
    {&names.metadata, "metadata"},
    {&names.fresh, "fresh"},
    {&names.last_reward, "last_reward"},
    {&names.rolling_return, "rolling_return"},
    {&names.step_rate_hz, "step_rate_hz"},
    {&names.data, "data"},
    {&names.width, "width"},
    {&names.height, "height"},
    {&names.channels, "channels"},
    {&names.seq, "seq"},
    {&names.timestamp_ns, "timestamp_ns"},
    {&names.pixel_format, "pixel_format"},
    {&names.skipped, "skipped"},
    {&names.read_into_other, "_read_into_other"},
    {&names.latest_frame_other, "_latest_frame_other"},
};

/* --- what a reader takes frames from ---------------------------------------------------------- */

/* What a reader takes frames from; another one when it moves to a new writer. */
struct aim {
    struct lk_frame_target target; /* its choice and pixels are not used */
    struct shape shape;            /* of the arrays to read into */
    /* A tuple: what enum kept says, then whatever owns the memory that the target points to. */
    PyObject *kept;
};

enum kept { FRAME_TYPE, METRICS_TYPE, WIDTH, HEIGHT, CHANNELS, PIXEL_FORMAT, KEPT_AT_LEAST };

typedef struct {
    PyObject base;
    struct aim aim;
} FrameReader;

/* The aim with a reference of its own: meanwhile another thread may change the reader's. */
static struct aim take_aim(FrameReader *self) {
    struct aim aim;
    WITH_OBJECT(self);
    aim = self->aim;
    Py_XINCREF(aim.kept);
    DONE_WITH_OBJECT();
    return aim;
}

static PyObject *reader_aim(PyObject *object, PyObject *args) {
    FrameReader *self = (FrameReader *)object;
    void *target;
    struct aim aim;
    if (!PyArg_ParseTuple(args, "O&O&O!:_aim", parse_address, &target, parse_shape, &aim.shape,
                          &PyTuple_Type, &aim.kept)) {
        return NULL;
    }
    if (PyTuple_Size(aim.kept) < KEPT_AT_LEAST) {
        PyErr_SetString(PyExc_ValueError, "the tuple is too short");
        return NULL;
    }
    memcpy(&aim.target, target, sizeof aim.target);
    Py_INCREF(aim.kept);
    PyObject *before;
    WITH_OBJECT(self);
    before = self->aim.kept;
    self->aim = aim;
    DONE_WITH_OBJECT();
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* The value of the only keyword that reading knows: 1, 0, or -1 if there is something else. */
static int take_fresh(PyObject *keywords, PyObject *const *values) {
    if (keywords == NULL) {
        return 0;
    }
    bool known = PyTuple_Size(keywords) == 1 && PyTuple_GetItem(keywords, 0) == names.fresh;
    if (known && values[0] == Py_True) {
        return 1;
    }
    return known && values[0] == Py_False ? 0 : -1;
}

static int64_t read_target(const struct lk_frame_target *target) {
    if (target->pixels_size < LET_OTHERS_RUN_FROM) {
        return lk_frame_read_target(target);
    }
    PyThreadState *thread = PyEval_SaveThread();
    int64_t seq = lk_frame_read_target(target);
    PyEval_RestoreThread(thread);
    return seq;
}

static PyObject *reader_read_into(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                  PyObject *keywords) {
    int fresh = count == 1 ? take_fresh(keywords, args + 1) : -1;
    if (fresh < 0) {
        return call_with(object, names.read_into_other, args, count, keywords);
    }
    struct aim aim = take_aim((FrameReader *)object);
    const int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE;
    aim.target.pixels = pixels_of(args[0], &aim.shape, flags);
    aim.target.choice = fresh ? LK_FRAME_FRESH : LK_FRAME_NEWEST;
    if (aim.target.pixels == NULL) {
        Py_XDECREF(aim.kept);
        return call_with(object, names.read_into_other, args, count, keywords);
    }
    int64_t seq = read_target(&aim.target);
    Py_DECREF(aim.kept);
    if (seq >= 0) {
        return PyLong_FromLongLong(seq);
    }
    return PyObject_CallMethod(object, "_read_into_again", "LOi", (long long)seq, args[0], fresh);
}

/* Set an attribute of a frozen dataclass that nobody else has seen yet; takes over the value. */
static bool set_new(PyObject *object, PyObject *name, PyObject *value) {
    bool fine = value != NULL && PyObject_GenericSetAttr(object, name, value) == 0;
    Py_XDECREF(value);
    return fine;
}

static bool set_kept(PyObject *object, PyObject *name, PyObject *kept, enum kept which) {
    return PyObject_GenericSetAttr(object, name, PyTuple_GetItem(kept, which)) == 0;
}

static PyObject *new_of(PyObject *kept, enum kept which) {
    return new_object((PyTypeObject *)PyTuple_GetItem(kept, which));
}

static PyObject *make_metrics(PyObject *kept, const struct lk_frame_metrics *from) {
    PyObject *metrics = new_of(kept, METRICS_TYPE);
    if (metrics != NULL &&
        !(set_new(metrics, names.last_reward, PyFloat_FromDouble(from->last_reward)) &&
          set_new(metrics, names.rolling_return, PyFloat_FromDouble(from->rolling_return)) &&
          set_new(metrics, names.step_rate_hz, PyFloat_FromDouble(from->step_rate_hz)))) {
        Py_CLEAR(metrics);
    }
    return metrics;
}

/* What FastLaneFrame(...) makes, without the price of a frozen dataclass's own constructor; takes
 * over the metadata. */
static PyObject *make_frame(PyObject *kept, PyObject *data, PyObject *metadata,
                            const struct lk_frame_info *info) {
    PyObject *frame = new_of(kept, FRAME_TYPE);
    if (frame == NULL) {
        Py_XDECREF(metadata);
    } else if (!(set_new(frame, names.metadata, metadata) &&
                 set_new(frame, names.data, Py_NewRef(data)) &&
                 set_kept(frame, names.width, kept, WIDTH) &&
                 set_kept(frame, names.height, kept, HEIGHT) &&
                 set_kept(frame, names.channels, kept, CHANNELS) &&
                 set_new(frame, names.metrics, make_metrics(kept, &info->metrics)) &&
                 set_new(frame, names.seq, PyLong_FromUnsignedLongLong(info->seq)) &&
                 set_new(frame, names.timestamp_ns,
                         PyLong_FromUnsignedLongLong(info->timestamp_ns)) &&
                 set_kept(frame, names.pixel_format, kept, PIXEL_FORMAT) &&
                 set_new(frame, names.skipped, PyLong_FromUnsignedLongLong(info->skipped)))) {
        Py_CLEAR(frame);
    }
    return frame;
}

/* Let last_frame_info know of the frame that was read last. */
static void note_info(FrameReader *self, const struct aim *aim, const struct lk_frame_info *info,
                      const char *metadata) {
    WITH_OBJECT(self);
    *aim->target.info = *info;
    if (info->metadata_size > 0) {
        memcpy(aim->target.metadata, metadata, (size_t)info->metadata_size);
    }
    DONE_WITH_OBJECT();
}

/* What a frame carries, out of a bytes object with room for more; None if it carries nothing. */
static PyObject *cut_metadata(PyObject *room, const struct lk_frame_info *info) {
    if (info->metadata_size < 0) {
        return Py_NewRef(Py_None);
    }
    Py_ssize_t size = (Py_ssize_t)info->metadata_size;
    return size == PyBytes_Size(room) ? Py_NewRef(room)
                                      : PyBytes_FromStringAndSize(PyBytes_AsString(room), size);
}

/* Pixels and metadata go straight into bytes objects. */
static PyObject *copy_frame(FrameReader *self, const struct aim *aim, int choice, int64_t *seq) {
    struct lk_frame_info info = {.seq = 0};
    struct lk_frame_target target = aim->target;
    PyObject *frame = NULL;
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)target.pixels_size);
    PyObject *metadata = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)target.metadata_size);
    if (data != NULL && metadata != NULL) {
        target.choice = choice;
        target.pixels = PyBytes_AsString(data);
        target.metadata = PyBytes_AsString(metadata);
        target.info = &info;
        *seq = read_target(&target);
        if (*seq > 0) {
            note_info(self, aim, &info, target.metadata);
            frame = make_frame(aim->kept, data, cut_metadata(metadata, &info), &info);
        }
    }
    Py_XDECREF(metadata);
    Py_XDECREF(data);
    return frame;
}

static PyObject *copy(PyObject *object, int choice) {
    FrameReader *self = (FrameReader *)object;
    struct aim aim = take_aim(self);
    int64_t seq = LK_E_CLOSED;
    PyObject *frame = aim.kept != NULL ? copy_frame(self, &aim, choice, &seq) : NULL;
    Py_XDECREF(aim.kept);
    if (frame != NULL || PyErr_Occurred() != NULL) {
        return frame;
    }
    if (seq == 0) {
        Py_RETURN_NONE;
    }
    return PyObject_CallMethod(object, "_copy_again", "Li", (long long)seq, choice);
}

static PyObject *reader_latest_frame(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                     PyObject *keywords) {
    int fresh = count == 0 ? take_fresh(keywords, args) : -1;
    if (fresh < 0) {
        return call_with(object, names.latest_frame_other, args, count, keywords);
    }
    return copy(object, fresh ? LK_FRAME_FRESH : LK_FRAME_NEWEST);
}

static PyObject *reader_next_frame(PyObject *object, PyObject *Py_UNUSED(none)) {
    return copy(object, LK_FRAME_NEXT);
}

/* Wait with other threads running, and come back with as little delay as can be. */
static PyObject *reader_wait(PyObject *object, PyObject *args) {
    unsigned long long timeout_ns;
    int strategy;
    if (!PyArg_ParseTuple(args, "Ki:_wait", &timeout_ns, &strategy)) {
        return NULL;
    }
    struct aim aim = take_aim((FrameReader *)object);
    int status = LK_E_CLOSED;
    if (aim.kept != NULL) {
        PyThreadState *thread = PyEval_SaveThread();
        status = lk_frame_wait(aim.target.reader, timeout_ns, strategy);
        PyEval_RestoreThread(thread);
    }
    Py_XDECREF(aim.kept);
    return PyLong_FromLong(status);
}

static int reader_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((FrameReader *)object)->aim.kept);
    return 0;
}

static int reader_clear(PyObject *object) {
    Py_CLEAR(((FrameReader *)object)->aim.kept);
    return 0;
}

static void reader_dealloc(PyObject *object) {
    PyObject_GC_UnTrack(object);
    reader_clear(object);
    free_object(object);
}

/* --- the module ------------------------------------------------------------------------------- */

PyDoc_STRVAR(read_into_doc,
             "read_into($self, out, *, fresh=False)\n--\n\n"
             "Copy the newest frame into `out` and return its sequence number, 0 if there is\n"
             "none.\n\n"
             "With `fresh`, 0 also if this reader has had the newest one already.\n"
             ":attr:`last_frame_info` tells the rest. Raises :class:`~lanekit.GeometryChanged`\n"
             "once when a new writer publishes frames of another geometry.");

PyDoc_STRVAR(latest_frame_doc,
             "latest_frame($self, *, fresh=False)\n--\n\n"
             "Return the newest frame, or None if there is none.\n\n"
             "With `fresh`, also None if this reader has had the newest one already.");

PyDoc_STRVAR(next_frame_doc,
             "next_frame($self)\n--\n\n"
             "Return the oldest frame in the ring that this reader has not had; None if it had\n"
             "all.\n\n"
             "``frame.skipped`` counts those that were overwritten before this reader came to\n"
             "them.");

static PyMethodDef reader_methods[] = {
    {"read_into", (PyCFunction)(void (*)(void))reader_read_into, WITH_KEYWORDS, read_into_doc},
    {"latest_frame", (PyCFunction)(void (*)(void))reader_latest_frame, WITH_KEYWORDS,
     latest_frame_doc},
    {"next_frame", reader_next_frame, METH_NOARGS, next_frame_doc},
    {"_aim", reader_aim, METH_VARARGS, NULL},
    {"_wait", reader_wait, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "The hot calls of a fast-lane reader; lanekit.FastLaneReader has the others."},
    {Py_tp_methods, reader_methods},
    {Py_tp_traverse, reader_traverse},
    {Py_tp_clear, reader_clear},
    {Py_tp_dealloc, reader_dealloc},
    {0, NULL},
};

static PyType_Spec reader_spec = {"lanekit._native.FrameReader", sizeof(FrameReader), 0, TYPE_FLAGS,
                                  reader_slots};

int lk_add_frame_reads(PyObject *module) {
    if (!make_names(all_names, sizeof all_names / sizeof *all_names)) {
        return -1;
    }
    PyObject *type = PyType_FromSpec(&reader_spec);
    int status = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0 ? -1 : 0;
    Py_XDECREF(type);
    return status;
}

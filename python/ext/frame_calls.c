/*
 * frame_calls.c: the fast lane's hot calls, for CPython.
 *
 * A training loop calls publish once per step, a viewer reads once per picture. At 84x84 the copy
 * itself takes half a microsecond, and a call through cffi takes almost as long again. So these few
 * calls take numpy arrays straight from CPython; everything else goes through cffi, as the whole
 * core does. This file knows Python and csrc/ does not, hence its own directory. It is linked into
 * the cffi extension: the core keeps state per process (segments, signal handlers), and there must
 * be one core.
 *
 * What is handled here is the plain case only. Anything else (another shape or type, gaps between
 * the pixels, an error, a reader that moved to a new writer) goes to a method of the Python class
 * that derives from the type here, which knows how to do it or how to say what is wrong.
 *
 * Threads: small copies keep the GIL, because giving it up and taking it back would cost more than
 * they do; nothing in them waits for a thread that needs it. Free-threaded CPython has none: there
 * the core's guard refuses the second thread, and the few fields that change are read and written
 * in the object's critical section.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include "lanekit.h"

#include <stdbool.h>
#include <string.h>

#ifdef Py_GIL_DISABLED
#define BEGIN_FIELDS(self) Py_BEGIN_CRITICAL_SECTION(self);
#define END_FIELDS() Py_END_CRITICAL_SECTION();
#else /* the GIL does it */
#define BEGIN_FIELDS(self) (void)(self);
#define END_FIELDS()
#endif

/* Copies of so many bytes and more let other threads run meanwhile. Measured: letting go of the GIL
 * and taking it back costs 0.05 us when nobody wants it, and so many bytes take 5 us or longer. */
#define LET_OTHERS_RUN_FROM ((size_t)128 << 10)

/* The names this file looks up, made once. */
static struct {
    PyObject *metrics, *metadata, *fresh;
    PyObject *last_reward, *rolling_return, *step_rate_hz;
    PyObject *data, *width, *height, *channels, *seq, *timestamp_ns, *pixel_format, *skipped;
    PyObject *publish_other, *read_into_other, *latest_frame_other;
} names;

static bool make_names(void) {
    const struct {
        PyObject **name;
        const char *text;
    } all[] = {
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
        {&names.publish_other, "_publish_other"},
        {&names.read_into_other, "_read_into_other"},
        {&names.latest_frame_other, "_latest_frame_other"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].name = PyUnicode_InternFromString(all[i].text);
        if (*all[i].name == NULL) {
            return false;
        }
    }
    return true;
}

/* --- arrays ----------------------------------------------------------------------------------- */

struct shape {
    npy_intp height, width, channels; /* all 0: nothing fits */
};

static int parse_shape(PyObject *from, void *to) {
    struct shape *shape = to;
    return PyArg_ParseTuple(from, "nnn", &shape->height, &shape->width, &shape->channels);
}

static int parse_address(PyObject *from, void *to) {
    void **address = (void **)to;
    *address = PyLong_AsVoidPtr(from);
    return PyErr_Occurred() == NULL;
}

/* numpy's own, side by side: a copy drives them out of the nearest cache each time. */
static struct {
    PyTypeObject *ndarray;
    PyArray_Descr *uint8;
} numpy;

static bool meet_numpy(void) {
    numpy.ndarray = &PyArray_Type;
    numpy.uint8 = PyArray_DescrFromType(NPY_UINT8);
    return numpy.uint8 != NULL;
}

/* The pixels of a uint8 array that has exactly this shape and these flags; else NULL. */
static void *pixels_of(PyObject *thing, const struct shape *shape, int flags) {
    if (shape->height == 0 || !PyObject_TypeCheck(thing, numpy.ndarray)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)thing;
    const npy_intp *found = PyArray_DIMS(array);
    if (PyArray_DESCR(array) != numpy.uint8 || PyArray_NDIM(array) != 3 ||
        found[0] != shape->height || found[1] != shape->width || found[2] != shape->channels ||
        !PyArray_CHKFLAGS(array, flags)) {
        return NULL;
    }
    return PyArray_DATA(array);
}

/* Hand a call on to a method of the Python class, arguments as they came. */
static PyObject *call_with(PyObject *self, PyObject *name, PyObject *const *args, Py_ssize_t count,
                           PyObject *keywords) {
    Py_ssize_t named = keywords != NULL ? PyTuple_Size(keywords) : 0;
    PyObject *result = NULL;
    PyObject *method = PyObject_GetAttr(self, name);
    PyObject *positional = PyTuple_New(count);
    PyObject *by_name = named > 0 ? PyDict_New() : NULL;
    bool fine = method != NULL && positional != NULL && (named == 0 || by_name != NULL);
    for (Py_ssize_t i = 0; fine && i < count; i++) {
        fine = PyTuple_SetItem(positional, i, Py_NewRef(args[i])) == 0;
    }
    for (Py_ssize_t i = 0; fine && i < named; i++) {
        fine = PyDict_SetItem(by_name, PyTuple_GetItem(keywords, i), args[count + i]) == 0;
    }
    if (fine) {
        result = PyObject_Call(method, positional, by_name);
    }
    Py_XDECREF(by_name);
    Py_XDECREF(positional);
    Py_XDECREF(method);
    return result;
}

/* --- the writer ------------------------------------------------------------------------------- */

typedef struct {
    PyObject base;
    /* Set once, before the object is used. */
    lk_frame_writer *writer;
    struct shape shape;
    size_t frame_size;
    size_t metadata_size; /* most per frame */
    PyObject *handle;     /* the cffi object that owns the writer */
} FrameWriter;

/* What goes with a frame. */
struct extras {
    bool has_metrics;
    struct lk_frame_metrics metrics;
    const char *metadata; /* NULL: none */
    size_t metadata_size;
};

static bool get_double(PyObject *from, PyObject *name, double *to) {
    PyObject *value = PyObject_GetAttr(from, name);
    if (value == NULL) {
        return false;
    }
    *to = PyFloat_AsDouble(value);
    Py_DECREF(value);
    return *to != -1.0 || PyErr_Occurred() == NULL;
}

/* 1: taken; 0: not the plain case; -1: a Python error is set. */
static int take_extras(const FrameWriter *self, PyObject *keywords, PyObject *const *values,
                       struct extras *out) {
    Py_ssize_t count = PyTuple_Size(keywords);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GetItem(keywords, i);
        PyObject *value = values[i];
        if (value == Py_None && (name == names.metrics || name == names.metadata)) {
            continue;
        }
        if (name == names.metrics) {
            out->has_metrics = true;
            if (!get_double(value, names.last_reward, &out->metrics.last_reward) ||
                !get_double(value, names.rolling_return, &out->metrics.rolling_return) ||
                !get_double(value, names.step_rate_hz, &out->metrics.step_rate_hz)) {
                return -1;
            }
        } else if (name == names.metadata && PyBytes_CheckExact(value) &&
                   (size_t)PyBytes_Size(value) <= self->metadata_size) {
            out->metadata = PyBytes_AsString(value);
            out->metadata_size = (size_t)PyBytes_Size(value);
        } else {
            return 0;
        }
    }
    return 1;
}

static int64_t publish(const FrameWriter *self, const void *pixels, const struct extras *extras) {
    if (!extras->has_metrics) {
        return lk_frame_publish(self->writer, pixels, self->frame_size, extras->metadata,
                                extras->metadata_size);
    }
    return lk_frame_publish_metrics(self->writer, pixels, self->frame_size, extras->metadata,
                                    extras->metadata_size, extras->metrics.last_reward,
                                    extras->metrics.rolling_return, extras->metrics.step_rate_hz);
}

static PyObject *writer_publish(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                PyObject *keywords) {
    FrameWriter *self = (FrameWriter *)object;
    struct extras extras = {.has_metrics = false};
    const void *pixels = NULL;
    if (count == 1) {
        int taken = keywords != NULL ? take_extras(self, keywords, args + 1, &extras) : 1;
        if (taken < 0) {
            return NULL;
        }
        if (taken > 0) {
            pixels = pixels_of(args[0], &self->shape, NPY_ARRAY_C_CONTIGUOUS);
        }
    }
    if (pixels == NULL) {
        return call_with(object, names.publish_other, args, count, keywords);
    }
    int64_t seq;
    if (self->frame_size < LET_OTHERS_RUN_FROM) {
        seq = publish(self, pixels, &extras);
    } else {
        PyThreadState *thread = PyEval_SaveThread();
        seq = publish(self, pixels, &extras);
        PyEval_RestoreThread(thread);
    }
    if (seq >= 0) {
        return PyLong_FromLongLong(seq);
    }
    return PyObject_CallMethod(object, "_fail", "L", (long long)seq);
}

static PyObject *writer_bind(PyObject *object, PyObject *args) {
    FrameWriter *self = (FrameWriter *)object;
    void *writer;
    struct shape shape;
    Py_ssize_t metadata_size;
    PyObject *handle;
    if (!PyArg_ParseTuple(args, "O&O&nO:_bind", parse_address, &writer, parse_shape, &shape,
                          &metadata_size, &handle)) {
        return NULL;
    }
    if (self->handle != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a writer keeps the handle it was made with");
        return NULL;
    }
    self->shape = shape;
    self->frame_size = (size_t)(shape.height * shape.width * shape.channels);
    self->metadata_size = (size_t)metadata_size;
    self->writer = writer;
    self->handle = Py_NewRef(handle);
    Py_RETURN_NONE;
}

static int writer_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((FrameWriter *)object)->handle);
    return 0;
}

static int writer_clear(PyObject *object) {
    FrameWriter *self = (FrameWriter *)object;
    self->shape = (struct shape){0};
    self->writer = NULL;
    Py_CLEAR(self->handle);
    return 0;
}

/* --- the reader ------------------------------------------------------------------------------- */

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
    BEGIN_FIELDS(self)
    aim = self->aim;
    Py_XINCREF(aim.kept);
    END_FIELDS()
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
    BEGIN_FIELDS(self)
    before = self->aim.kept;
    self->aim = aim;
    END_FIELDS()
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
    PyTypeObject *type = (PyTypeObject *)PyTuple_GetItem(kept, which);
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
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
    BEGIN_FIELDS(self)
    *aim->target.info = *info;
    if (info->metadata_size > 0) {
        memcpy(aim->target.metadata, metadata, (size_t)info->metadata_size);
    }
    END_FIELDS()
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

/* --- the module ------------------------------------------------------------------------------- */

static void dealloc(PyObject *object, inquiry clear) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static void writer_dealloc(PyObject *object) {
    dealloc(object, writer_clear);
}

static void reader_dealloc(PyObject *object) {
    dealloc(object, reader_clear);
}

PyDoc_STRVAR(publish_doc,
             "publish($self, frame, *, metrics=None, metadata=None)\n--\n\n"
             "Copy a frame into the ring and make it the newest one; never waits.\n\n"
             "`frame` is a uint8 array of shape (height, width, channels), of any strides, or a\n"
             "buffer of exactly that many bytes. `metrics` stay with the frame and become the\n"
             "run's newest; without them the last ones are repeated. Returns the frame's\n"
             "sequence number.");

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

#define WITH_KEYWORDS (METH_FASTCALL | METH_KEYWORDS)

static PyMethodDef writer_methods[] = {
    {"publish", (PyCFunction)(void (*)(void))writer_publish, WITH_KEYWORDS, publish_doc},
    {"_bind", writer_bind, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef reader_methods[] = {
    {"read_into", (PyCFunction)(void (*)(void))reader_read_into, WITH_KEYWORDS, read_into_doc},
    {"latest_frame", (PyCFunction)(void (*)(void))reader_latest_frame, WITH_KEYWORDS,
     latest_frame_doc},
    {"next_frame", reader_next_frame, METH_NOARGS, next_frame_doc},
    {"_aim", reader_aim, METH_VARARGS, NULL},
    {"_wait", reader_wait, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, "The hot call of a fast-lane writer; lanekit.FastLaneWriter has the others."},
    {Py_tp_methods, writer_methods},
    {Py_tp_traverse, writer_traverse},
    {Py_tp_clear, writer_clear},
    {Py_tp_dealloc, writer_dealloc},
    {0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "The hot calls of a fast-lane reader; lanekit.FastLaneReader has the others."},
    {Py_tp_methods, reader_methods},
    {Py_tp_traverse, reader_traverse},
    {Py_tp_clear, reader_clear},
    {Py_tp_dealloc, reader_dealloc},
    {0, NULL},
};

#define TYPE_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC)

static PyType_Spec types[] = {
    {"lanekit._native.FrameWriter", sizeof(FrameWriter), 0, TYPE_FLAGS, writer_slots},
    {"lanekit._native.FrameReader", sizeof(FrameReader), 0, TYPE_FLAGS, reader_slots},
};

/* The other lanes' calls, each in a file of its own: 0, or -1 with a Python error set. */
int lk_add_trajectory_calls(PyObject *module);
int lk_add_trajectory_records(PyObject *module);

/* What cffi generates, under the name that CMakeLists.txt gives it. */
PyMODINIT_FUNC lk_cffi_module(void);
PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) {
    import_array();
    PyObject *module = lk_cffi_module();
    bool fine = module != NULL && make_names() && meet_numpy();
    for (size_t i = 0; fine && i < sizeof types / sizeof *types; i++) {
        PyObject *type = PyType_FromSpec(&types[i]);
        fine = type != NULL && PyModule_AddType(module, (PyTypeObject *)type) == 0;
        Py_XDECREF(type);
    }
    fine = fine && lk_add_trajectory_calls(module) == 0 && lk_add_trajectory_records(module) == 0;
    if (!fine) {
        Py_CLEAR(module);
    }
    return module;
}

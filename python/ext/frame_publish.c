/*
 * frame_publish.c: publishing on the fast lane, for CPython, and what its reading shares with it.
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
#include "frame_calls.h"

/* The names this file looks up, made once. */
static struct {
    PyObject *metrics, *metadata;
    PyObject *last_reward, *rolling_return, *step_rate_hz;
    PyObject *publish_other;
} names;

static const struct name all_names[] = {
    {&names.metrics, "metrics"},           {&names.metadata, "metadata"},
    {&names.last_reward, "last_reward"},   {&names.rolling_return, "rolling_return"},
    {&names.step_rate_hz, "step_rate_hz"}, {&names.publish_other, "_publish_other"},
};

bool make_names(const struct name *all, size_t count) {
    for (size_t i = 0; i < count; i++) {
        *all[i].name = PyUnicode_InternFromString(all[i].text);
        if (*all[i].name == NULL) {
            return false;
        }
    }
    return true;
}

/* --- arrays ----------------------------------------------------------------------------------- */

int parse_shape(PyObject *from, void *to) {
    struct shape *shape = to;
    return PyArg_ParseTuple(from, "nnn", &shape->height, &shape->width, &shape->channels);
}

struct numpy_types numpy;

static bool meet_numpy(void) {
    numpy.ndarray = &PyArray_Type;
    numpy.uint8 = PyArray_DescrFromType(NPY_UINT8);
    return numpy.uint8 != NULL;
}

PyObject *call_with(PyObject *self, PyObject *name, PyObject *const *args, Py_ssize_t count,
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

/* Whether all of them are of the plain kind. */
static bool take_extras(const FrameWriter *self, PyObject *keywords, PyObject *const *values,
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
                PyErr_Clear();
                return false;
            }
        } else if (name == names.metadata && PyBytes_CheckExact(value) &&
                   (size_t)PyBytes_Size(value) <= self->metadata_size) {
            out->metadata = PyBytes_AsString(value);
            out->metadata_size = (size_t)PyBytes_Size(value);
        } else {
            return false;
        }
    }
    return true;
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
        if (keywords == NULL || take_extras(self, keywords, args + 1, &extras)) {
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

/* --- the module ------------------------------------------------------------------------------- */

static void writer_dealloc(PyObject *object) {
    PyObject_GC_UnTrack(object);
    writer_clear(object);
    free_object(object);
}

PyDoc_STRVAR(publish_doc,
             "publish($self, frame, *, metrics=None, metadata=None)\n--\n\n"
             "Copy a frame into the ring and make it the newest one; never waits.\n\n"
             "`frame` is a uint8 array of shape (height, width, channels), of any strides, or a\n"
             "buffer of exactly that many bytes. `metrics` stay with the frame and become the\n"
             "run's newest; without them the last ones are repeated. Returns the frame's\n"
             "sequence number.");

static PyMethodDef writer_methods[] = {
    {"publish", (PyCFunction)(void (*)(void))writer_publish, WITH_KEYWORDS, publish_doc},
    {"_bind", writer_bind, METH_VARARGS, NULL},
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

static PyType_Spec writer_spec = {"lanekit._native.FrameWriter", sizeof(FrameWriter), 0, TYPE_FLAGS,
                                  writer_slots};

static bool add_writer(PyObject *module) {
    PyObject *type = PyType_FromSpec(&writer_spec);
    bool fine = type != NULL && PyModule_AddType(module, (PyTypeObject *)type) == 0;
    Py_XDECREF(type);
    return fine;
}

/* What cffi generates, under the name that CMakeLists.txt gives it. */
PyMODINIT_FUNC lk_cffi_module(void);
PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) {
    import_array();
    PyObject *module = lk_cffi_module();
    bool fine = module != NULL && make_names(all_names, sizeof all_names / sizeof *all_names) &&
                meet_numpy() && add_writer(module) && lk_add_frame_reads(module) == 0 &&
                lk_add_trajectory_calls(module) == 0 && lk_add_trajectory_records(module) == 0;
    if (!fine) {
        Py_CLEAR(module);
    }
    return module;
}

/*
 * trajectory_calls.c: putting a record into the trajectory lane, for CPython.
 *
 * A rollout worker puts a record of four or five arrays: with small records the description of each
 * array through cffi takes longer than its copy. So the plain case, a dict of arrays that are
 * exactly what the schema says, goes straight from CPython to the core. As in frame_publish.c,
 * everything that is not plain goes back to Python, which knows what to do or what is wrong.
 */
#include "calls.h"

struct field {
    PyObject *name;
    PyArray_Descr *dtype;
    int ragged, optional;
    int dimensions;
    npy_intp shape[DIMENSIONS_MOST];
    uint64_t row_size;
};

typedef struct {
    PyObject base;
    /* Set once, before the object is used. */
    lk_traj_writer *writer;
    PyObject *handle; /* the cffi object that owns the writer */
    Py_ssize_t count;
    struct field *fields;
} RecordPutter;

static bool read_field(PyObject *from, struct field *to) {
    PyObject *shape;
    PyObject *dtype;
    Py_ssize_t row_size;
    if (!PyArg_ParseTuple(from, "UOO!ppn", &to->name, &dtype, &PyTuple_Type, &shape, &to->ragged,
                          &to->optional, &row_size)) {
        to->name = NULL;
        return false;
    }
    Py_ssize_t dimensions = PyTuple_Size(shape);
    if (!PyArray_DescrCheck(dtype) || dimensions > DIMENSIONS_MOST || row_size < 1) {
        to->name = NULL;
        PyErr_SetString(PyExc_ValueError, "not a field");
        return false;
    }
    to->dimensions = (int)dimensions;
    to->row_size = (uint64_t)row_size;
    for (Py_ssize_t i = 0; i < dimensions; i++) {
        to->shape[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
    }
    Py_INCREF(to->name);
    Py_INCREF(dtype);
    to->dtype = (PyArray_Descr *)dtype;
    return PyErr_Occurred() == NULL;
}

static PyObject *putter_bind(PyObject *object, PyObject *args) {
    RecordPutter *self = (RecordPutter *)object;
    void *writer;
    PyObject *fields;
    PyObject *handle;
    if (!PyArg_ParseTuple(args, "O&O!O:_bind", parse_address, &writer, &PyTuple_Type, &fields,
                          &handle)) {
        return NULL;
    }
    Py_ssize_t count = PyTuple_Size(fields);
    if (self->handle != NULL || count < 1 || count > LK_TRAJ_FIELDS_MAX) {
        PyErr_SetString(PyExc_RuntimeError, "a writer keeps the handle it was made with");
        return NULL;
    }
    self->fields = PyMem_Calloc((size_t)count, sizeof *self->fields);
    if (self->fields == NULL) {
        return PyErr_NoMemory();
    }
    for (; self->count < count; self->count++) {
        if (!read_field(PyTuple_GetItem(fields, self->count), &self->fields[self->count])) {
            return NULL;
        }
    }
    self->writer = writer;
    self->handle = Py_NewRef(handle);
    Py_RETURN_NONE;
}

/* Describe an array to the core if it is exactly what its field says. */
static bool describe(const struct field *field, PyObject *value, struct lk_traj_array *out) {
    if (!PyArray_CheckExact(value)) {
        return false;
    }
    PyArrayObject *array = (PyArrayObject *)value;
    if (PyArray_DESCR(array) != field->dtype &&
        !PyArray_EquivTypes(PyArray_DESCR(array), field->dtype)) {
        return false;
    }
    const npy_intp *found = PyArray_DIMS(array);
    if (PyArray_NDIM(array) != field->dimensions + (field->ragged ? 1 : 0) ||
        !PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS)) {
        return false;
    }
    for (int i = 0; i < field->dimensions; i++) {
        if (found[i + (field->ragged ? 1 : 0)] != field->shape[i]) {
            return false;
        }
    }
    out->data = PyArray_DATA(array);
    out->rows = field->ragged ? (uint64_t)found[0] : 1;
    return true;
}

/* Put one number of Python's own into a field of one. */
static bool convert(const struct field *field, PyObject *value, double *room,
                    struct lk_traj_array *out) {
    if (field->ragged || field->dimensions != 0 || !PyFloat_CheckExact(value)) {
        return false;
    }
    double number = PyFloat_AsDouble(value);
    int kind = field->dtype->type_num;
    if (kind == NPY_FLOAT) {
        float narrow = (float)number;
        memcpy(room, &narrow, sizeof narrow);
    } else if (kind == NPY_DOUBLE) {
        *room = number;
    } else {
        return false;
    }
    out->data = room;
    out->rows = 1;
    return true;
}

/* A new reference to a dict's value, NULL for none: meanwhile another thread may change the dict.
 */
static PyObject *value_of(PyObject *dict, PyObject *name) {
#ifdef Py_GIL_DISABLED
    PyObject *value;
    PyDict_GetItemRef(dict, name, &value);
    return value;
#else /* the GIL keeps it until we have it */
    return Py_XNewRef(PyDict_GetItemWithError(dict, name));
#endif
}

/* The record's number, 0 if there is no room now, a negative status; None: not the plain case. */
static PyObject *putter_put_now(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    const RecordPutter *self = (const RecordPutter *)object;
    if (count != 2 || self->writer == NULL || !PyDict_CheckExact(args[0]) ||
        !PyBytes_CheckExact(args[1])) {
        Py_RETURN_NONE;
    }
    struct lk_traj_array arrays[LK_TRAJ_FIELDS_MAX];
    double numbers[LK_TRAJ_FIELDS_MAX];
    PyObject *kept[LK_TRAJ_FIELDS_MAX];
    Py_ssize_t held = 0;
    Py_ssize_t found = 0;
    uint64_t size = 0;
    bool plain = true;
    for (Py_ssize_t i = 0; plain && i < self->count; i++) {
        const struct field *field = &self->fields[i];
        PyObject *value = value_of(args[0], field->name);
        if (value != NULL) {
            kept[held++] = value;
            found++;
        }
        if (value == NULL || value == Py_None) {
            plain = field->optional && PyErr_Occurred() == NULL;
            arrays[i] = (struct lk_traj_array){NULL, ABSENT};
            continue;
        }
        plain =
            describe(field, value, &arrays[i]) || convert(field, value, &numbers[i], &arrays[i]);
        size += plain ? arrays[i].rows * field->row_size : 0;
    }
    int64_t number = 0;
    plain = plain && found == PyDict_Size(args[0]);
    if (plain) {
        const char *metadata = PyBytes_AsString(args[1]);
        size_t metadata_size = (size_t)PyBytes_Size(args[1]);
        if (size < LET_OTHERS_RUN_FROM) {
            number = lk_traj_put(self->writer, arrays, metadata, metadata_size, 0);
        } else {
            PyThreadState *thread = PyEval_SaveThread();
            number = lk_traj_put(self->writer, arrays, metadata, metadata_size, 0);
            PyEval_RestoreThread(thread);
        }
    }
    while (held > 0) {
        Py_DECREF(kept[--held]);
    }
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    return plain ? PyLong_FromLongLong(number) : Py_NewRef(Py_None);
}

static int putter_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((RecordPutter *)object)->handle);
    return 0;
}

static int putter_clear(PyObject *object) {
    RecordPutter *self = (RecordPutter *)object;
    self->writer = NULL;
    Py_CLEAR(self->handle);
    return 0;
}

static void putter_dealloc(PyObject *object) {
    RecordPutter *self = (RecordPutter *)object;
    PyObject_GC_UnTrack(object);
    putter_clear(object);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_XDECREF(self->fields[i].name);
        Py_XDECREF((PyObject *)self->fields[i].dtype);
    }
    PyMem_Free(self->fields);
    free_object(object);
}

/* --- the module ------------------------------------------------------------------------------- */

static PyMethodDef putter_methods[] = {
    {"_bind", putter_bind, METH_VARARGS, NULL},
    {"_put_now", (PyCFunction)(void (*)(void))putter_put_now, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot putter_slots[] = {
    {Py_tp_doc, "The hot step of a trajectory writer; lanekit.TrajectoryWriter has the others."},
    {Py_tp_methods, putter_methods},
    {Py_tp_traverse, putter_traverse},
    {Py_tp_clear, putter_clear},
    {Py_tp_dealloc, putter_dealloc},
    {0, NULL},
};

static PyType_Spec putter_spec = {"lanekit._native.RecordPutter", sizeof(RecordPutter), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                  putter_slots};

int lk_add_trajectory_calls(PyObject *module) {
    import_array1(-1);
    PyObject *putter = PyType_FromSpec(&putter_spec);
    int status = putter == NULL || PyModule_AddType(module, (PyTypeObject *)putter) != 0 ? -1 : 0;
    Py_XDECREF(putter);
    return status;
}
